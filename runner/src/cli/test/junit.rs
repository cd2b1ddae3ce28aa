//! The results in the format of JUnit, which CI servers read.

use super::report::{CaseResult, TestReport};

/// The results as XML: a suite for each topic.
pub(super) fn render(report: &TestReport) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for cases in report.cases.chunk_by(|a, b| a.topic == b.topic) {
        let topic = cases.first().map(|case| case.topic.as_str()).unwrap_or_default();
        let failed = cases.iter().filter(|case| has_failed(case)).count();
        let seconds: f64 = cases.iter().map(seconds).sum();
        text.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" time=\"{seconds:.6}\">\n",
            escape(topic),
            cases.len(),
        ));
        cases.iter().for_each(|case| add_case(&mut text, case));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn add_case(text: &mut String, case: &CaseResult) {
    let class = match &case.file {
        Some(file) => file.display().to_string(),
        None => format!("{} smoke", case.topic),
    };
    text.push_str(&format!(
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{:.6}\"",
        escape(&case.name),
        escape(&class),
        seconds(case),
    ));
    if !has_failed(case) {
        text.push_str("/>\n");
        return;
    }
    let line = |it: &super::report::DifferenceLine| {
        format!("{}: expected {:?}, found {:?}", it.what, it.expected, it.found)
    };
    let lines: Vec<String> = case.differences.iter().map(line).collect();
    let first = lines.first().map(String::as_str).unwrap_or_default();
    text.push_str(&format!(
        ">\n      <failure message=\"{}\">{}</failure>\n",
        escape(first),
        escape(&lines.join("\n")),
    ));
    if !case.log.is_empty() {
        text.push_str(&format!(
            "      <system-out>{}</system-out>\n",
            escape(&case.log.join("\n"))
        ));
    }
    text.push_str("    </testcase>\n");
}

fn has_failed(case: &CaseResult) -> bool {
    !case.passed && !case.updated
}

fn seconds(case: &CaseResult) -> f64 {
    case.time_ms / 1e3
}

/// Text for XML. Control characters, which XML 1.0 cannot hold, become U+FFFD.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a b=\"c\">&\u{1}\n"), "&lt;a b=&quot;c&quot;&gt;&amp;\u{fffd}\n");
    }
}
