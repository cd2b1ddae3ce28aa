//! The screen of `duebox dev`: what happened, the newest at the bottom; above it what serves, below it the sample and the
//! keys. It fits 80×24.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::feed::{Entry, Tone};
use super::session::Session;
use crate::cli::project::HandlerLanguage;
use crate::observe::printable;

/// The columns of the time and the label.
const TIME: usize = 9;
const LABEL: usize = 8;
/// The fewest columns of a text.
const TEXT_MIN: usize = 20;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);
const KEYS: &str =
    "Enter push · Tab next sample · a after changes · b build · c clear · ↑↓ · q quit";

/// Which part of the lines is shown.
#[derive(Default)]
pub(super) struct View {
    /// Rows below the visible ones.
    below: usize,
}

impl View {
    pub(super) fn scroll_up(&mut self, rows: usize) {
        self.below += rows;
    }

    pub(super) fn scroll_down(&mut self, rows: usize) {
        self.below = self.below.saturating_sub(rows);
    }

    pub(super) fn scroll_to_end(&mut self) {
        self.below = 0;
    }

    /// Keeps what is shown in its place when lines are added, unless the end is shown.
    pub(super) fn keep_place(&mut self, new: &[Entry], width: u16) {
        if self.below > 0 {
            self.below += new.iter().map(|entry| rows(entry, width).len()).sum::<usize>();
        }
    }
}

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, session: &Session<'_>, view: &mut View) {
    let areas =
        [Constraint::Length(1), Constraint::Min(1), Constraint::Length(1), Constraint::Length(1)];
    let [title, body, sample, keys] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(title_line(session), title);
    frame.render_widget(Paragraph::new(visible_rows(session, view, body)), body);
    frame.render_widget(sample_line(session), sample);
    frame.render_widget(Line::styled(KEYS, DIM), keys);
}

fn title_line(session: &Session<'_>) -> Line<'static> {
    let language = session.project.language.map_or("no build", HandlerLanguage::name);
    let serves = match session.serving() {
        Some(digest) => format!("{digest} serves"),
        None if session.daemon.is_some() => "the daemon starts".to_owned(),
        None => "nothing serves".to_owned(),
    };
    let topic = &session.samples.topic;
    let mut parts =
        vec![Span::styled(format!("duebox dev · {topic} · {language} · {serves}"), HEAD)];
    match &session.build {
        Some(build) => {
            let text = format!(" · building for {} s", build.elapsed().as_secs());
            parts.push(Span::styled(text, style(Tone::Warning)));
        }
        None if session.build_failed => {
            parts.push(Span::styled(" · the last build failed", style(Tone::Bad)));
        }
        None => {}
    }
    Line::from(parts)
}

fn sample_line(session: &Session<'_>) -> Line<'static> {
    let after = match session.pushes_changes {
        true => "pushed after each change",
        false => "pushed by Enter only",
    };
    let text = format!("sample {} · {after}", session.samples.describe());
    Line::from(printable::one_line(&text))
}

/// The rows that are shown. The rows below them are at most as many as there are.
fn visible_rows(session: &Session<'_>, view: &mut View, area: Rect) -> Vec<Line<'static>> {
    let (height, mut newest) = (usize::from(area.height), Vec::new());
    for entry in session.feed.newest_first() {
        if newest.len() >= view.below + height {
            break;
        }
        newest.extend(rows(entry, area.width).into_iter().rev());
    }
    view.below = view.below.min(newest.len().saturating_sub(height));
    let mut shown: Vec<Line<'static>> = newest.into_iter().skip(view.below).take(height).collect();
    shown.reverse();
    shown
}

/// The rows of a line: its text is broken at the width of the screen.
fn rows(entry: &Entry, width: u16) -> Vec<Line<'static>> {
    let columns = usize::from(width).saturating_sub(TIME + LABEL).max(TEXT_MIN);
    let time: String = entry.at.chars().take(TIME - 1).collect();
    let style = style(entry.tone);
    let row = |(number, text): (usize, String)| {
        let (time, label) = match number {
            0 => (time.as_str(), entry.label.as_str()),
            _ => ("", ""),
        };
        Line::from(vec![
            Span::styled(format!("{time:TIME$}"), DIM),
            Span::styled(format!("{label:LABEL$}"), style.add_modifier(Modifier::BOLD)),
            Span::styled(text, style),
        ])
    };
    broken(&entry.text, columns).into_iter().enumerate().map(row).collect()
}

/// A text in pieces of at most this width; one piece if it is empty.
fn broken(text: &str, columns: usize) -> Vec<String> {
    let (mut pieces, mut piece, mut width) = (Vec::new(), String::new(), 0);
    for letter in text.chars() {
        let wide = Span::raw(letter.to_string()).width();
        if width + wide > columns {
            pieces.push(std::mem::take(&mut piece));
            width = 0;
        }
        piece.push(letter);
        width += wide;
    }
    pieces.push(piece);
    pieces
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Dim => DIM,
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_broken_at_the_width_and_nothing_is_lost() {
        let text = "界".repeat(40) + "end";
        let pieces = broken(&text, 63);
        assert_eq!(pieces.concat(), text);
        assert!(pieces.iter().all(|piece| Span::raw(piece.as_str()).width() <= 63), "{pieces:?}");
        let (at, label) = ("12:00:03.123".to_owned(), "log".to_owned());
        let entry = Entry { at, label, text, tone: Tone::Plain };
        let shown: Vec<String> = rows(&entry, 80).iter().map(Line::to_string).collect();
        assert_eq!(shown.len(), 2);
        assert!(
            shown[0].starts_with("12:00:03 log     界") && shown[1].ends_with("end"),
            "{shown:?}"
        );
        assert!(KEYS.chars().count() <= 80, "{}", KEYS.chars().count());
    }
}
