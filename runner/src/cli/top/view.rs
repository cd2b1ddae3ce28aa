//! The screen of `duebox top`: one table, and details on the selected line. It fits 80×24.

mod daemons;
mod jobs;
#[cfg(test)]
mod tests;

use std::time::Duration;

use duebox_job::format_duration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, Wrap};

use super::model::{Mode, Model, Open};
use super::rates::Rate;
use crate::cli::stats::{TopicStats, handlers};
use crate::cli::support::output;

/// Width from which there is a module column.
const WIDE: u16 = 100;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().fg(Color::DarkGray);
const BAD: Style = Style::new().fg(Color::Red);

const HELP: &str = "\
↑ ↓ j k   select             Enter   open: its dead jobs, one job
s         next sort column   /       filter by a part of the name
d         daemons            Tab     in a topic: the next state
p         pause or resume    r       requeue the selected dead job
R         requeue all dead   Esc q   back, or quit

Changes ask for confirmation: y confirms, n cancels.
rate, failed, p99: attempts a second, the failed part of them, how
late 99 of 100 start; from reports that are one to ten seconds old.";

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let rows =
        [Constraint::Length(1), Constraint::Min(3), Constraint::Length(3), Constraint::Length(1)];
    let [title, body, about, keys] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(title_line(model), title);
    match &mut model.open {
        None if model.daemons.is_some() => daemons::draw(frame, body, model),
        None => draw_topics(frame, body, model),
        Some(Open { details: Some((job, life)), scroll, .. }) => {
            jobs::draw_details(frame, body, (job, life), *scroll);
        }
        Some(open) => jobs::draw_list(frame, body, open),
    }
    frame.render_widget(Paragraph::new(about_current(model)).wrap(Wrap { trim: true }), about);
    frame.render_widget(bottom_line(model), keys);
    if model.mode == Mode::Help {
        draw_help(frame);
    }
}

fn title_line(model: &Model) -> Line<'static> {
    let Some(snapshot) = &model.snapshot else { return Line::from("duebox top") };
    let runners = handlers::counted(snapshot.runners.len());
    let by = match &model.open {
        None if model.daemons.is_some() => "daemons".to_owned(),
        None => format!("{} topics by {}", model.rows().len(), model.order.word()),
        Some(open) => format!("{} jobs of {}", open.state.shown(), open.topic),
    };
    Line::styled(format!("duebox top · {runners} · {by}"), HEAD)
}

fn draw_topics(frame: &mut Frame<'_>, area: Rect, model: &mut Model) {
    let is_wide = area.width >= WIDE;
    let rows: Vec<Row<'static>> = model
        .rows()
        .into_iter()
        .map(|topic| topic_row(topic, model.rates.of(&topic.topic), is_wide))
        .collect();
    let mut head = vec![
        "topic", "rate", "failed", "pending", "ready", "running", "retry", "dead", "late", "p99",
    ];
    let numbers = [8, 6, 8, 6, 7, 6, 6, 6, 6].map(Constraint::Length);
    let mut widths = vec![Constraint::Min(12)];
    widths.extend(numbers);
    if is_wide {
        head.push("module");
        widths.push(Constraint::Length(14));
    }
    let table =
        Table::new(rows, widths).header(Row::new(head).style(HEAD)).row_highlight_style(SELECTED);
    frame.render_stateful_widget(table, area, &mut model.topics);
}

fn topic_row(topic: &TopicStats, rate: Rate, is_wide: bool) -> Row<'static> {
    let p99 = topic.handler.as_ref().and_then(|handler| handler.late_p99_ms);
    let bad_if = |is_bad: bool| if is_bad { BAD } else { Style::new() };
    let failed = rate.failed_part();
    let percent = |part: f64| format!("{:.0}%", (part * 100.0).ceil());
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let attempts = (rate.attempts > 0.0).then(|| format!("{:.1}/s", rate.attempts));
    let mut cells = vec![
        Cell::from(output::one_line(&topic.topic)),
        Cell::from(or_none(attempts)),
        Cell::from(or_none(failed.map(percent))).style(bad_if(failed > Some(0.0))),
        Cell::from(topic.pending.to_string()),
        Cell::from((topic.ready + topic.blocked).to_string()),
        Cell::from(topic.unack.to_string()),
        Cell::from(topic.retry.to_string()),
        Cell::from(topic.dead.to_string()).style(bad_if(topic.dead > 0)),
        Cell::from(or_none(topic.late_ms.map(span))),
        Cell::from(or_none(p99.map(|ms| span(ms.round() as u64)))),
    ];
    if is_wide {
        cells.push(Cell::from(module(topic)));
    }
    let held = topic.handler.as_ref().is_some_and(|handler| handler.breakers_open > 0);
    Row::new(cells).style(if held {
        BAD
    } else if topic.paused {
        DIM
    } else {
        Style::new()
    })
}

fn module(topic: &TopicStats) -> String {
    match &topic.handler {
        None if topic.pulled => "pull".to_owned(),
        None if !topic.bound => "unbound".to_owned(),
        None => "-".to_owned(),
        Some(handler) => match handler.digests.len() {
            0 => "none yet".to_owned(),
            1 => handler.digests.iter().map(|digest| handlers::short(digest)).collect(),
            many => format!("{many} modules"),
        },
    }
}

/// Details on the selected daemon or the current topic.
fn about_current(model: &Model) -> String {
    if model.open.is_none() && model.daemons.is_some() {
        return daemons::about_selected(model);
    }
    if let Some(open) = model.open.as_ref().filter(|open| open.details.is_none())
        && let Some(about) = jobs::about_selected(open)
    {
        return about;
    }
    let Some(topic) = model.current() else { return String::new() };
    let mut parts = vec![format!("{}: {}", output::one_line(&topic.topic), module(topic))];
    if let Some(fault) = &topic.fault {
        parts.push(output::one_line(fault));
    }
    if topic.paused {
        parts.push("paused".to_owned());
    }
    if topic.outbox > 0 {
        parts.push(format!("{} in the outbox", topic.outbox));
    }
    if let Some(due) = topic.next_due_in_ms {
        parts.push(format!("next due in {}", span(due)));
    }
    if let Some(handler) = &topic.handler {
        let total = &handler.total;
        if total.attempts > 0 {
            let (all, failed) = (total.attempts, total.failed);
            let mean = total.wall_mean().as_micros() as f64 / 1_000.0;
            parts.push(format!("{all} attempts, {failed} failed, {mean:.1} ms each"));
        }
        if handler.breakers_open > 0 {
            parts.push(format!(
                "breaker open in {} of {} daemons",
                handler.breakers_open, handler.runners
            ));
        }
        let withdrawn = handler
            .withdrawn
            .iter()
            .map(|digest| format!("{} is rolled back", handlers::short(digest)));
        parts.extend(withdrawn);
        let canaries = handler.canaries.iter();
        parts.extend(
            canaries
                .map(|(digest, percent)| format!("canary {} {percent}%", handlers::short(digest))),
        );
    }
    parts.join(" · ")
}

fn bottom_line(model: &Model) -> Line<'static> {
    match &model.mode {
        Mode::Ask(question, _) => {
            Line::styled(format!("{question}  y/n"), BAD.add_modifier(Modifier::BOLD))
        }
        Mode::Filter => Line::from(format!("/{}", model.filter)),
        Mode::Browse | Mode::Help if !model.notice.is_empty() => {
            Line::from(output::one_line(&model.notice))
        }
        Mode::Browse | Mode::Help if model.is_detailed() => {
            Line::styled("↑ ↓ scroll  r requeue  Esc back to the jobs  ? help", DIM)
        }
        Mode::Browse | Mode::Help if model.open.is_some() => {
            let keys =
                "Enter details  Tab state  r requeue  R requeue all  p pause  Esc back  ? help";
            Line::styled(keys, DIM)
        }
        Mode::Browse | Mode::Help if model.daemons.is_some() => {
            Line::styled("↑ ↓ select  Esc topics  ? help", DIM)
        }
        Mode::Browse | Mode::Help => {
            Line::styled("Enter open  d daemons  s sort  / filter  p pause  ? help  q quit", DIM)
        }
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(70), area.height.min(12));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let area = Rect { x, y, width, height };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), area);
}

fn span(ms: u64) -> String {
    format_duration(Duration::from_millis(output::rounded(ms)))
}
