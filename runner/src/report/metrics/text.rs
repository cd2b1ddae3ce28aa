//! The two forms in which a page is served: OpenMetrics, as it was written, and the plain text form of
//! Prometheus, for scrapers and people that do not ask for the other.
//!
//! They differ in what stands above the samples: OpenMetrics names a family without the `_total` or `_info`
//! of its samples, tells its unit, and ends with a mark.

use std::borrow::Cow;

/// What a scraper is told that it gets.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The same for the plain form.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// True if a scraper's `Accept` asks for OpenMetrics.
pub(super) fn wants_open_metrics(accept: &str) -> bool {
    accept.split(',').any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_it = parts.next() == Some("application/openmetrics-text");
        is_it && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

/// The plain form of a page.
pub(super) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            // Named as the samples are, which the next line tells.
            help = line;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (name, kind): (Cow<'_, str>, _) = match kind {
                "counter" => (format!("{name}_total").into(), kind),
                "info" => (format!("{name}_info").into(), "gauge"),
                _ => (name.into(), kind),
            };
            let said = help.splitn(4, ' ').nth(3).unwrap_or_default();
            text.push_str(&format!("# HELP {name} {said}\n# TYPE {name} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_their_samples_are() {
        let page = "# HELP a_b Said.\n# TYPE a_b counter\na_b_total{x=\"# y\"} 1\n\
                    # HELP c Said too.\n# TYPE c info\nc_info{d=\"e\"} 1\n\
                    # HELP f_seconds Long.\n# TYPE f_seconds gauge\n# UNIT f_seconds seconds\n\
                    f_seconds 2.5\n# EOF\n";
        let expected = "# HELP a_b_total Said.\n# TYPE a_b_total counter\na_b_total{x=\"# y\"} 1\n\
                        # HELP c_info Said too.\n# TYPE c_info gauge\nc_info{d=\"e\"} 1\n\
                        # HELP f_seconds Long.\n# TYPE f_seconds gauge\nf_seconds 2.5\n";
        assert_eq!(plain(page), expected);
    }

    #[test]
    fn only_who_asks_gets_open_metrics() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1";
        assert!(wants_open_metrics(prometheus));
        for other in ["", "*/*", "text/plain", "application/openmetrics-text;q=0"] {
            assert!(!wants_open_metrics(other), "{other}");
        }
    }
}
