//! Why a command ends without having done what it was asked: what failed, on what, and the remedy.

use std::io::{self, Write};
use std::process::ExitCode;

use duebox_queue::QueueError;

use crate::manifest::ManifestError;
use crate::observe::log::colours_wanted;
use crate::service::value::BadValue;

/// The input is bad and nothing was done.
pub(crate) const BAD_INPUT: u8 = 2;
/// It failed, or was refused.
pub(crate) const FAILED: u8 = 1;

/// A command that ended early, with what stderr gets and the exit code.
#[derive(Debug)]
pub struct Failure {
    exit: u8,
    text: String,
}

impl Failure {
    /// The input is bad: exit code 2.
    pub(crate) fn bad_input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(BAD_INPUT, &message.into(), &hint.into())
    }

    /// It failed, or was refused: exit code 1.
    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FAILED, &message.into(), &hint.into())
    }

    fn new(exit: u8, message: &str, hint: &str) -> Self {
        Self { exit, text: format!("error: {message}\nhint: {hint}") }
    }

    /// With this exit code.
    pub(crate) fn with_exit(exit: u8, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(exit, &message.into(), &hint.into())
    }

    /// What is wrong, without the remedy.
    pub(crate) fn message(&self) -> String {
        let text = self.text.strip_prefix("error: ").unwrap_or(&self.text);
        text.split("\nhint: ").next().unwrap_or(text).to_owned()
    }

    /// The command line does not say what to do.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let advice = "For more information, try '--help'.";
        let text = text.trim_end().trim_end_matches(advice).trim_end();
        let hint = "hint: duebox help shows all commands, duebox help COMMAND one of them";
        Self { exit: BAD_INPUT, text: format!("{text}\n{hint}") }
    }

    /// Several problems of the input, each with its hint: exit code 2.
    pub(crate) fn problems(texts: impl Iterator<Item = String>) -> Self {
        Self { exit: BAD_INPUT, text: texts.collect::<Vec<_>>().join("\n\n") }
    }

    /// A line after the first `stored` ones was bad: those before it are stored already.
    pub(crate) fn after_lines(self, stored: u64) -> Self {
        if stored == 0 {
            return self;
        }
        let next = stored + 1;
        let text = format!(
            "{}\nhint: the first {stored} lines are pushed; push the rest with: tail -n +{next}",
            self.text
        );
        Self { exit: FAILED, text }
    }

    /// Redis failed while it was given these lines.
    pub(crate) fn in_lines(self, first: u64, last: u64) -> Self {
        let text = format!(
            "{}\nhint: the lines before {first} are pushed; whether {first} to {last} are is not \
             known. With --id the whole push can be repeated safely",
            self.text
        );
        Self { exit: self.exit, text }
    }

    /// Stdout cannot be written. A reader that went away has seen all it wanted.
    pub(crate) fn of_stdout(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { exit: 0, text: String::new() },
            _ => Self::failed(format!("stdout cannot be written: {error}"), "check where it goes"),
        }
    }

    /// Tells the user and gives the exit code. With stderr gone there is nobody left to tell.
    pub fn report(self) -> ExitCode {
        if !self.text.is_empty() {
            writeln!(io::stderr(), "{}", self.text).unwrap_or_default();
        }
        ExitCode::from(self.exit)
    }
}

impl From<BadValue> for Failure {
    fn from(BadValue { message, hint }: BadValue) -> Self {
        Self::bad_input(message, hint)
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        Self { exit: BAD_INPUT, text: error.render(colours_wanted()) }
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        let (message, hint) = split_remedy(&error.to_string());
        Self::failed(message, hint.unwrap_or_else(|| "look into the log of Redis".to_owned()))
    }
}

/// The errors of the queue and the sandbox end in their remedy, after the last `; `.
pub(crate) fn split_remedy(text: &str) -> (String, Option<String>) {
    match text.rsplit_once("; ") {
        Some((message, remedy)) => (message.to_owned(), Some(remedy.to_owned())),
        None => (text.to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_becomes_the_hint() {
        assert_eq!(split_remedy("a; b; c"), ("a; b".to_owned(), Some("c".to_owned())));
        assert_eq!(split_remedy("a"), ("a".to_owned(), None));
        let failure = Failure::bad_input("x", "y");
        assert_eq!((failure.exit, failure.text.as_str()), (2, "error: x\nhint: y"));
    }
}
