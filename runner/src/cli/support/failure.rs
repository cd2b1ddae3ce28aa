//! Why a command failed: what failed, on what, and the remedy.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use duebox_queue::QueueError;
use duebox_sandbox::SandboxError;

use crate::manifest::ManifestError;
use crate::observe::log::colours_wanted;
use crate::observe::printable;
use crate::service::value::BadValue;

/// The input is bad and nothing was done.
pub(crate) const BAD_INPUT: u8 = 2;
/// It failed, or was refused.
pub(crate) const FAILED: u8 = 1;

/// A command that ended early, with its exit code.
#[derive(Debug)]
pub struct Failure {
    exit: u8,
    report: Report,
}

/// What stderr gets.
#[derive(Debug)]
enum Report {
    /// Nothing: the reader has what it wanted.
    Silent,
    /// What failed, on what; and the remedies.
    Error { message: String, hints: Vec<String> },
    /// Text that another part has rendered, with its hints.
    Rendered(String),
}

impl Failure {
    /// The input is bad: exit code 2.
    pub(crate) fn bad_input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with_exit(BAD_INPUT, message, hint)
    }

    /// It failed, or was refused: exit code 1.
    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::with_exit(FAILED, message, hint)
    }

    /// A failure with this exit code.
    pub(crate) fn with_exit(exit: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hints) = (message.into(), vec![hint.into()]);
        Self { exit, report: Report::Error { message, hints } }
    }

    /// It failed, and the message states the remedy: exit code 1.
    pub(crate) fn with_own_remedy(message: String) -> Self {
        Self { exit: FAILED, report: Report::Error { message, hints: Vec::new() } }
    }

    fn rendered(text: String) -> Self {
        Self { exit: BAD_INPUT, report: Report::Rendered(text) }
    }

    /// What is wrong, without the remedy.
    pub(crate) fn message(&self) -> &str {
        match &self.report {
            Report::Silent => "",
            Report::Error { message, .. } => message,
            Report::Rendered(text) => text,
        }
    }

    /// An invalid command line.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let advice = "For more information, try '--help'.";
        let text = text.trim_end().trim_end_matches(advice).trim_end();
        let hint = "hint: see duebox help for all commands, or duebox help COMMAND for one";
        Self::rendered(format!("{text}\n{hint}"))
    }

    /// Several problems of the input, each with its hint: exit code 2.
    pub(crate) fn problems(texts: impl Iterator<Item = String>) -> Self {
        Self::rendered(texts.collect::<Vec<_>>().join("\n\n"))
    }

    /// A line was invalid after the first `stored` lines were stored.
    pub(crate) fn after_lines(mut self, stored: u64) -> Self {
        if stored == 0 {
            return self;
        }
        self.exit = FAILED;
        let next = stored + 1;
        self.with_hint(format!(
            "the first {stored} lines are pushed; push the rest with: tail -n +{next}"
        ))
    }

    /// Redis failed while these lines were pushed.
    pub(crate) fn in_lines(self, first: u64, last: u64) -> Self {
        self.with_hint(format!(
            "the lines before {first} are pushed; lines {first} to {last} may be pushed. With --id \
             the whole push can be repeated safely"
        ))
    }

    fn with_hint(mut self, hint: String) -> Self {
        if let Report::Error { hints, .. } = &mut self.report {
            hints.push(hint);
        }
        self
    }

    /// Stdout cannot be written. A closed pipe is not an error: the reader has what it wanted.
    pub(crate) fn of_stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { exit: 0, report: Report::Silent },
            _ => Self::failed(format!("stdout cannot be written: {error}"), "check where it goes"),
        }
    }

    /// Prints the failure to stderr and returns the exit code. A write error is ignored.
    pub fn report(self) -> ExitCode {
        if !matches!(self.report, Report::Silent) {
            writeln!(io::stderr(), "{}", self.report).unwrap_or_default();
        }
        ExitCode::from(self.exit)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => Ok(()),
            Self::Rendered(text) => f.write_str(text),
            Self::Error { message, hints } => {
                write!(f, "error: {}", printable::lines(message))?;
                hints.iter().try_for_each(|hint| write!(f, "\nhint: {}", printable::lines(hint)))
            }
        }
    }
}

impl From<BadValue> for Failure {
    fn from(BadValue { message, hint }: BadValue) -> Self {
        Self::bad_input(message, hint)
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        Self::rendered(error.render(colours_wanted()))
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        Self::of_queue(&error)
    }
}

impl From<SandboxError> for Failure {
    fn from(error: SandboxError) -> Self {
        Self::with_own_remedy(error.to_string())
    }
}

impl Failure {
    /// Redis could not be reached, or refused.
    pub(crate) fn of_queue(error: &QueueError) -> Self {
        Self::failed(error.problem(), error.remedy().unwrap_or("check the log of Redis"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_becomes_the_hint() {
        let (url, reason) = ("redis://a".to_owned(), "b; c".to_owned());
        let failure = Failure::of_queue(&QueueError::Unreachable { url, reason });
        let text = "error: Redis at redis://a cannot be reached: b; c\nhint: start it, or correct redis.url";
        assert_eq!(failure.report.to_string(), text);
        let failure = Failure::bad_input("x", "y");
        assert_eq!((failure.exit, failure.report.to_string().as_str()), (2, "error: x\nhint: y"));
    }
}
