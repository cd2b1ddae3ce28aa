//! What the person sees: one line a topic, redrawn in place on a terminal; a block of plain lines
//! every two seconds elsewhere.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use duebox_queue::Depths;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ledger::Ledger;
use crate::plan::Topic;

const PLAIN_EVERY: Duration = Duration::from_secs(2);

/// What stands over the columns of [`row`].
const HEAD: &str = "topic           pending ready unack retry dead acked  late p50·p99  module";

/// The lines.
pub(crate) struct Board {
    live: Option<Live>,
    started: Instant,
    drawn: Option<Instant>,
}

struct Live {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

impl Board {
    pub(crate) fn new() -> Self {
        let live = stdout().is_terminal().then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
            let line = || {
                let bar = ProgressBar::new_spinner();
                // The template is a constant without a mistake; the default would draw too.
                let style = ProgressStyle::with_template("{msg}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                all.add(bar)
            };
            let lines = (0..=Topic::ALL.len()).map(|_| line()).collect();
            Live { all, lines }
        });
        Self { live, started: Instant::now(), drawn: None }
    }

    /// Shows something that happened, above the lines.
    pub(crate) fn say(&self, text: &str) {
        let text = format!("{:>6.1} s  {text}", self.started.elapsed().as_secs_f64());
        match &self.live {
            Some(live) => {
                if live.all.println(&text).is_err() {
                    // The terminal is gone; the demo goes on and its exit code tells.
                }
            }
            None => print(&text),
        }
    }

    /// Shows where the jobs are now.
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
                self.say(&format!("{} jobs pushed", ledger.len()));
                texts.iter().for_each(|text| print(text));
            }
        }
    }

    /// Leaves the lines as they are: what is printed next stands below them.
    pub(crate) fn leave(&self) {
        if let Some(live) = &self.live {
            live.lines.iter().for_each(ProgressBar::abandon);
        }
    }
}

/// One topic's line, in less than 80 columns: it must not wrap on an ordinary terminal.
fn row(topic: Topic, depths: &Depths, ledger: &Ledger) -> String {
    let Depths { pending, ready, unack, retry, dead, .. } = depths;
    let heard = ledger.topic(topic);
    let acked = heard.map_or(0, |heard| heard.acked);
    let late = heard.map_or_else(String::new, |heard| {
        format!("{:.1}·{:.1} ms", heard.late_ms(0.5), heard.late_ms(0.99))
    });
    let digest = heard.map_or("", |heard| short(&heard.digest));
    format!(
        "{:<15}{pending:>8}{ready:>6}{unack:>6}{retry:>6}{dead:>5}{acked:>6}  {late:<13} {digest}",
        topic.name()
    )
}

/// As much of a module's digest as tells two apart.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..8).unwrap_or(digest)
}

/// Prints a line to stdout. A reader who has gone away does not end the demo.
pub(crate) fn print(text: &str) {
    if writeln!(stdout(), "{text}").is_err() {
        // The exit code still tells.
    }
}
