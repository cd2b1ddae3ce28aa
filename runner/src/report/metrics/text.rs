//! The two formats of the page: OpenMetrics, as written, and the plain text format of Prometheus as
//! the default.
//!
//! They differ in the lines above the samples. OpenMetrics names a family without the `_total` or
//! `_info` of its samples, states the unit, and has an end marker.

use std::borrow::Cow;

/// Content type of OpenMetrics.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the plain format.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// True if an `Accept` header requests OpenMetrics.
pub(super) fn wants_open_metrics(accept: &str) -> bool {
    accept.split(',').any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_it = parts.next() == Some("application/openmetrics-text");
        is_it && !parts.any(|part| matches!(part, "q=0" | "q=0.0"))
    })
}

/// Converts a page to the plain format.
pub(super) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            // The next line has the name of the samples.
            help = line;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (name, kind): (Cow<'_, str>, _) = match kind {
                "counter" => (format!("{name}_total").into(), kind),
                "info" => (format!("{name}_info").into(), "gauge"),
                _ => (name.into(), kind),
            };
            let text_of_help = help.splitn(4, ' ').nth(3).unwrap_or_default();
            text.push_str(&format!("# HELP {name} {text_of_help}\n# TYPE {name} {kind}\n"));
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
    fn families_are_named_like_their_samples() {
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
    fn open_metrics_is_sent_only_on_request() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1";
        assert!(wants_open_metrics(prometheus));
        for other in ["", "*/*", "text/plain", "application/openmetrics-text;q=0"] {
            assert!(!wants_open_metrics(other), "{other}");
        }
    }
}
