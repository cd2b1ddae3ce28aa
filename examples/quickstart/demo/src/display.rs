//! The demo's display: one line per topic, redrawn in place on a terminal; plain lines every two
//! seconds otherwise.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use duebox_queue::Depths;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ledger::Ledger;
use crate::plan::Topic;

const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// Column titles of [`row`].
const HEAD: &str = "topic           pending ready unack retry dead acked  late p50·p99  module";

/// The display.
pub(crate) struct Display {
    live: Option<Live>,
    started: Instant,
    drawn: Option<Instant>,
}

struct Live {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl Display {
    pub(crate) fn new() -> Self {
        let live = stdout().is_terminal().then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
            let line = || {
                let bar = ProgressBar::new_spinner();
                // The template is a valid constant, so the fallback is never used.
                let style = ProgressStyle::with_template("{msg}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                all.add(bar)
            };
            let lines = (0..=Topic::ALL.len()).map(|_| line()).collect();
            Live { all, lines }
        });
        Self { live, started: Instant::now(), drawn: None }
    }

    /// Prints an event above the topic lines.
    pub(crate) fn print_event(&self, text: &str) {
        let text = format!("{:>6.1} s  {text}", self.started.elapsed().as_secs_f64());
        match &self.live {
            Some(live) => {
                if live.all.println(&text).is_err() {
                    // The terminal is gone; the demo continues, and its exit code has the result.
                }
            }
            None => print(&text),
        }
    }

    /// Shows the current number of jobs in each state.
    pub(crate) fn draw(&mut self, depths: &[Depths], ledger: &Ledger) {
        if self.live.is_none() && self.drawn.is_some_and(|at| at.elapsed() < PLAIN_EVERY) {
            return;
        }
        self.drawn = Some(Instant::now());
        let topics =
            Topic::ALL.iter().zip(depths).map(|(topic, depths)| row(*topic, depths, ledger));
        let texts: Vec<String> = std::iter::once(HEAD.to_owned()).chain(topics).collect();
        match &self.live {
            Some(live) => {
                for (line, text) in live.lines.iter().zip(texts) {
                    line.set_message(text);
                    line.tick();
                }
            }
            None => {
                self.print_event(&format!("{} jobs pushed", ledger.len()));
                texts.iter().for_each(|text| print(text));
            }
        }
    }

    /// Leaves the lines on the screen, so that later output appears below them.
    pub(crate) fn leave(&self) {
        if let Some(live) = &self.live {
            live.lines.iter().for_each(ProgressBar::abandon);
        }
    }
}

/// One topic's line, shorter than 80 columns so that it does not wrap.
fn row(topic: Topic, depths: &Depths, ledger: &Ledger) -> String {
    let Depths { pending, ready, unack, retry, dead, .. } = depths;
    let summary = ledger.topic(topic);
    let acked = summary.map_or(0, |summary| summary.acked);
    let late = summary.map_or_else(String::new, |summary| {
        format!("{:.1}·{:.1} ms", summary.late_ms(0.5), summary.late_ms(0.99))
    });
    let digest = summary.map_or("", |summary| short(&summary.digest));
    format!(
        "{:<15}{pending:>8}{ready:>6}{unack:>6}{retry:>6}{dead:>5}{acked:>6}  {late:<13} {digest}",
        topic.name()
    )
}

/// The first characters of a module's digest.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..8).unwrap_or(digest)
}

/// Prints a line to stdout. A closed stdout does not end the demo.
pub(crate) fn print(text: &str) {
    if writeln!(stdout(), "{text}").is_err() {
        // The exit code has the result.
    }
}
