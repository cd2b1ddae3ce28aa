//! A line of the daemon's log, which it writes as JSON, as a session shows it.

use duebox_job::format_duration;
use serde_json::Value;
use std::time::Duration;

use bytesize::ByteSize;

use super::feed::Tone;

/// What a line of the daemon says.
#[derive(Debug, PartialEq)]
pub(super) enum DaemonLine {
    /// All topics are served.
    Ready,
    /// A handler serves a topic from now on.
    Serving { topic: String, digest: String },
    /// An attempt ended.
    Verdict { digest: String },
    /// Any other line.
    Other,
}

/// A line with its label and text.
pub(super) struct ShownLine {
    pub(super) line: DaemonLine,
    pub(super) label: String,
    pub(super) tone: Tone,
    pub(super) text: String,
}

impl ShownLine {
    /// Reads a line of the log; `None` if it is not one, such as the error with which a daemon ends.
    pub(super) fn read(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok().filter(Value::is_object)?;
        let fields = Fields(&json);
        let shown = |line, label: &str, tone, text| {
            let label = label.to_owned();
            Self { line, label, tone, text }
        };
        let (job, message) = (fields.text("job_id"), fields.text("message"));
        Some(match fields.text("target") {
            "handler" => {
                // A job of a smoke case has no id: it is not in the queue.
                let job = if job.is_empty() { "smoke case" } else { job };
                let text = format!("{job}  {message}");
                shown(DaemonLine::Other, "log", fields.tone(), text)
            }
            "duebox::trace" => {
                let text = format!("{job}\n{}", fields.text("trace"));
                shown(DaemonLine::Other, "trace", Tone::Bad, text)
            }
            "duebox::job" if !fields.text("verdict").is_empty() => {
                let (label, tone) = fields.verdict();
                let digest = fields.text("digest").to_owned();
                shown(DaemonLine::Verdict { digest }, label, tone, fields.describe_attempt())
            }
            _ => shown(fields.kind(), "daemon", fields.tone(), fields.describe()),
        })
    }
}

/// The fields of a line. A missing one is empty.
struct Fields<'j>(&'j Value);

impl Fields<'_> {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.0[name].as_f64()
    }

    fn tone(&self) -> Tone {
        match self.text("level") {
            "ERROR" => Tone::Bad,
            "WARN" => Tone::Warning,
            "INFO" => Tone::Plain,
            _ => Tone::Dim,
        }
    }

    fn kind(&self) -> DaemonLine {
        let (topic, digest) = (self.text("topic").to_owned(), self.text("digest").to_owned());
        match self.text("message") {
            "ready" => DaemonLine::Ready,
            message if message == "serving" || message.starts_with("a new module serves") => {
                DaemonLine::Serving { topic, digest }
            }
            _ => DaemonLine::Other,
        }
    }

    /// The word for an attempt's end, and how it looks.
    fn verdict(&self) -> (&str, Tone) {
        match (self.text("verdict"), self.text("settled")) {
            (_, "dead") => ("dead", Tone::Bad),
            (verdict @ "ack", _) => (verdict, Tone::Good),
            (verdict @ ("snooze" | "release"), _) => (verdict, Tone::Warning),
            (verdict, _) => (verdict, Tone::Bad),
        }
    }

    /// The end of an attempt: why, what it cost, and what follows.
    fn describe_attempt(&self) -> String {
        let attempt = self.number("attempt").unwrap_or(1.0);
        let mut parts = vec![format!("{}  attempt {attempt}", self.text("job_id"))];
        let (class, reason) = (self.text("class"), self.text("reason"));
        match (class.is_empty(), reason.is_empty()) {
            (true, true) => {}
            (false, false) => parts.push(format!("{class}: {reason}")),
            _ => parts.push(format!("{class}{reason}")),
        }
        if let Some(ms) = self.number("next_attempt_in_ms") {
            let next = Duration::from_millis(ms as u64);
            parts.push(format!("the next attempt is in {}", format_duration(next)));
        }
        if let Some(ms) = self.number("wall_ms") {
            parts.push(format!("{ms:.1} ms"));
        }
        if let Some(bytes) = self.number("memory_peak_bytes") {
            parts.push(ByteSize(bytes as u64).display().iec_short().to_string());
        }
        parts.extend(Some(self.text("digest").to_owned()).filter(|digest| !digest.is_empty()));
        parts.join(" · ")
    }

    /// A line of the daemon: its message, and the fields that say on what.
    fn describe(&self) -> String {
        let mut text = self.text("message").to_owned();
        for name in ["topic", "digest", "address", "url", "error"] {
            let value = self.text(name);
            if !value.is_empty() && !text.contains(value) {
                text.push_str(&format!(" · {value}"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (DaemonLine, String) {
        let ShownLine { line, label, text, .. } = ShownLine::read(text).unwrap();
        (line, format!("{label}: {text}"))
    }

    #[test]
    fn the_lines_of_a_daemon_are_shown_by_what_they_say() {
        let (line, text) = read(
            r#"{"level":"INFO","target":"handler","message":"Hello, Ada!","topic":"a","job_id":"7"}"#,
        );
        assert_eq!((line, text.as_str()), (DaemonLine::Other, "log: 7  Hello, Ada!"));
        let (line, text) = read(
            r#"{"level":"WARN","target":"duebox::job","message":"job retry","job_id":"7","attempt":2,"verdict":"nack",
            "class":"trap","reason":"unreachable","settled":"retry","next_attempt_in_ms":1000.0,"digest":"3fa9","wall_ms":0.42}"#,
        );
        assert_eq!(line, DaemonLine::Verdict { digest: "3fa9".to_owned() });
        assert_eq!(
            text,
            "nack: 7  attempt 2 · trap: unreachable · the next attempt is in 1s · 0.4 ms · 3fa9"
        );
        let (line, text) = read(
            r#"{"level":"INFO","target":"duebox::daemon","message":"serving","topic":"a","digest":"3fa9"}"#,
        );
        assert!(matches!(line, DaemonLine::Serving { .. }) && text == "daemon: serving · a · 3fa9");
        assert!(ShownLine::read("error: Redis cannot be reached").is_none());
    }
}
