//! Writes a run as one self-contained HTML file with the table and the plots.

use std::fmt::Write as _;

use crate::contender::Contender;
use crate::plot::{self, AxisLabels};
use crate::report::{Report, RowReport, number};
use crate::results::{Judgement, Line, Plot};

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n<title>Duebox: the bench</title>\n<style>\n\
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }\n\
table { border-collapse: collapse; width: 100%; font-size: .9rem; }\n\
td, th { padding: .15rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }\n\
td:first-child, th:first-child { text-align: left; white-space: pre-wrap; }\n\
.first td { border-top: 2px solid #999; }\n.pass { color: #00693e; }\n\
.miss { color: #a8320a; font-weight: bold; }\nfigure { margin: 2rem 0; }\n\
svg { max-width: 100%; height: auto; }\nfigcaption { color: #444; }\npre { white-space: pre-wrap; }\n\
.wide { overflow-x: auto; }\n</style>\n";

/// Each plot with its axis labels and caption.
const PLOTS: [(Plot, AxisLabels, &str); 3] = [
    (
        Plot::Batches,
        AxisLabels { x: "jobs in a batch", y: "jobs/s" },
        "Throughput against batch size: ready jobs leased and acked so many a batch by a client that \
         runs no handlers, and drained by a daemon with that many in flight, which sizes its batches \
         itself.",
    ),
    (
        Plot::Lateness,
        AxisLabels { x: "ms from due time to start", y: "% of the jobs" },
        "Lateness as a distribution: the part of the jobs that started at most so many ms after \
         they fell due, one line a run. None started early.",
    ),
    (
        Plot::Backlog,
        AxisLabels { x: "pending jobs", y: "jobs/s" },
        "Throughput against backlog: the same drain of ready jobs with that many pending jobs.",
    ),
];

/// Renders the page.
pub(crate) fn html(report: &Report) -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    write!(page, "<h1>The bench</h1>\n<pre>{}</pre>\n", escaped(&report.conditions()))?;
    if !report.rows.is_empty() {
        table(&mut page, &report.rows)?;
    }
    if !report.peers.is_empty() {
        peers(&mut page, &report.peers)?;
    }
    for (plot, labels, caption) in &PLOTS {
        let lines: Vec<&Line> = report.lines.iter().filter(|line| line.plot == *plot).collect();
        if !lines.is_empty() {
            figure(&mut page, &plot::lines(labels, &lines)?, caption)?;
        }
    }
    if !report.costs.is_empty() {
        let caption = "Processor time of a job, broken down: Redis; the daemon's client and its own \
                       work; the sandbox, measured alone.";
        figure(&mut page, &plot::costs(&report.costs)?, caption)?;
    }
    page.push_str("</html>\n");
    Ok(page)
}

fn table(page: &mut String, rows: &[RowReport]) -> std::fmt::Result {
    page.push_str(
        "<div class=\"wide\"><table>\n<tr><th>what<th>target<th>median<th>unit<th>min–max<th></tr>\n",
    );
    let mut family = None;
    for row in rows {
        let first = family.replace(row.family) != Some(row.family);
        let class = match row.judgement {
            Judgement::Pass => "pass",
            Judgement::Miss => "miss",
            Judgement::Shown => "",
        };
        writeln!(
            page,
            "<tr{}><td>{}<td>{}<td>{}<td>{}<td>{}–{}<td class=\"{class}\">{}</tr>",
            if first { " class=\"first\"" } else { "" },
            escaped(row.name),
            escaped(&row.target),
            number(row.spread.median),
            row.unit,
            number(row.spread.min),
            number(row.spread.max),
            row.judgement.word(),
        )?;
    }
    page.push_str("</table></div>\n");
    Ok(())
}

fn peers(page: &mut String, contenders: &[Contender]) -> std::fmt::Result {
    page.push_str("<h2>Comparison with peers</h2>\n<div class=\"wide\"><table>\n<tr><th>");
    for title in Contender::TITLES {
        write!(page, "<th>{}", escaped(title))?;
    }
    page.push_str("</tr>\n");
    for contender in contenders {
        write!(page, "<tr><td>{}", escaped(&contender.title()))?;
        for cell in contender.cells() {
            write!(page, "<td>{}", escaped(&cell))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n<ul>\n");
    for contender in contenders {
        for remark in &contender.remarks {
            writeln!(page, "<li>{}: {}</li>", escaped(&contender.title()), escaped(remark))?;
        }
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn figure(page: &mut String, svg: &str, caption: &str) -> std::fmt::Result {
    writeln!(page, "<figure>\n{svg}\n<figcaption>{}</figcaption>\n</figure>", escaped(caption))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
