//! The screen of `duebox top`: one table, and details on the selected line. It fits 80×24.

use std::time::Duration;

use duebox_job::format_duration;
use duebox_queue::{DeadSummary, Job};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, Wrap};

use super::model::{Mode, Model, Open};
use crate::cli::stats::{TopicStats, handlers};
use crate::cli::support::output;

/// Bytes of a payload that are shown.
const PAYLOAD_MAX: usize = 4 << 10;
/// Width from which there is a module column.
const WIDE: u16 = 100;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);
const DIM: Style = Style::new().fg(Color::DarkGray);
const BAD: Style = Style::new().fg(Color::Red);

const HELP: &str = "\
↑ ↓ j k   select             Enter   open: dead jobs, details
s         next sort column   /       filter by a part of the name
p         pause or resume    r       requeue the selected dead job
R         requeue all dead   Esc q   back, or quit

Changes ask for confirmation: y confirms, n cancels.
Rates and failures come from daemons, up to ten seconds old.";

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let rows =
        [Constraint::Length(1), Constraint::Min(3), Constraint::Length(3), Constraint::Length(1)];
    let [title, body, about, keys] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(title_line(model), title);
    match &mut model.open {
        None => draw_topics(frame, body, model),
        Some(Open { details: Some(job), scroll, .. }) => draw_details(frame, body, job, *scroll),
        Some(open) => draw_dead(frame, body, open),
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
        None => format!("{} topics by {}", model.rows().len(), model.order.word()),
        Some(open) => format!("dead jobs of {}", open.topic),
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
    let mut head =
        vec!["topic", "rate", "pending", "ready", "unack", "retry", "dead", "late", "failed"];
    let numbers = [8, 8, 7, 6, 6, 6, 6, 6].map(Constraint::Length);
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

fn topic_row(topic: &TopicStats, rate: f64, is_wide: bool) -> Row<'static> {
    let failed = topic.handler.as_ref().map(|handler| handler.total.failed_part());
    let mut cells = vec![
        Cell::from(output::one_line(&topic.topic)),
        Cell::from(if rate > 0.0 { format!("{rate:.1}/s") } else { "-".to_owned() }),
        Cell::from(topic.pending.to_string()),
        Cell::from((topic.ready + topic.blocked).to_string()),
        Cell::from(topic.unack.to_string()),
        Cell::from(topic.retry.to_string()),
        Cell::from(topic.dead.to_string()).style(if topic.dead > 0 { BAD } else { Style::new() }),
        Cell::from(topic.late_ms.map_or_else(|| "-".to_owned(), span)),
        Cell::from(failed.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", part * 100.0))),
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

/// Details on the current topic.
fn about_current(model: &Model) -> String {
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
        if total.jobs > 0 {
            let mean = total.wall_mean().as_micros() as f64 / 1_000.0;
            parts.push(format!("{} jobs, {} failed, {mean:.1} ms each", total.jobs, total.failed));
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

fn draw_dead(frame: &mut Frame<'_>, area: Rect, open: &mut Open) {
    if open.dead.is_empty() {
        frame.render_widget(Paragraph::new("this topic has no dead jobs"), area);
        return;
    }
    let row = |job: &DeadSummary| {
        Row::new([
            output::one_line(&job.id.to_string()),
            output::time(job.died_at_ms),
            job.class.clone().unwrap_or_default(),
            output::one_line(job.reason.as_deref().unwrap_or_default()),
        ])
    };
    let widths =
        [Constraint::Max(24), Constraint::Length(24), Constraint::Length(14), Constraint::Min(12)];
    let table = Table::new(open.dead.iter().map(row), widths)
        .header(Row::new(["id", "died", "class", "reason"]).style(HEAD))
        .row_highlight_style(SELECTED);
    frame.render_stateful_widget(table, area, &mut open.table);
}

fn draw_details(frame: &mut Frame<'_>, area: Rect, job: &Job, scroll: u16) {
    let block = Block::bordered().title(format!(" {} ", output::one_line(&job.id.to_string())));
    let text = Paragraph::new(details(job)).wrap(Wrap { trim: false }).scroll((scroll, 0));
    frame.render_widget(text.block(block), area);
}

/// The record of a dead job, one item per line.
fn details(job: &Job) -> String {
    let mut lines = Vec::new();
    if let Some(dead) = &job.dead {
        lines.push(format!("died {}", output::time(dead.died_at_ms)));
        for name in ["class", "reason", "attempt", "digest", "wall_ms", "trace"] {
            match &dead.info[name] {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => {
                    lines.push(format!("{name}: {}", plain_lines(text)))
                }
                value => lines.push(format!("{name}: {value}")),
            }
        }
        let log = dead.info["log"].as_array().into_iter().flatten();
        let log: Vec<String> = log.filter_map(|line| Some(plain_lines(line.as_str()?))).collect();
        if !log.is_empty() {
            lines.push(format!("log:\n  {}", log.join("\n  ")));
        }
    } else {
        lines.push(format!("it is now {}", job.state.word()));
    }
    if let Some(payload) = &job.payload {
        let shown = &payload[..payload.len().min(PAYLOAD_MAX)];
        let text = plain_lines(&String::from_utf8_lossy(shown));
        lines.push(format!("payload, {} bytes:\n{text}", payload.len()));
    }
    lines.join("\n")
}

/// Text of a guest or a producer, with its lines kept and control characters escaped.
fn plain_lines(text: &str) -> String {
    text.lines().map(output::one_line).collect::<Vec<_>>().join("\n")
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
        Mode::Browse | Mode::Help if model.open.is_some() => {
            Line::styled("Enter details  r requeue  R requeue all  p pause  Esc back  ? help", DIM)
        }
        Mode::Browse | Mode::Help => {
            Line::styled("Enter open  s sort  / filter  p pause  ? help  q quit", DIM)
        }
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (area.width.min(70), area.height.min(10));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let area = Rect { x, y, width, height };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), area);
}

fn span(ms: u64) -> String {
    format_duration(Duration::from_millis(output::rounded(ms)))
}

#[cfg(test)]
mod tests {
    use duebox_job::{JobId, TopicName};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    use super::*;
    use crate::cli::stats::Snapshot;
    use crate::cli::top::model::Action;

    fn topic(name: &str, ready: u64, dead: u64) -> TopicStats {
        TopicStats {
            topic: name.to_owned(),
            bound: true,
            pulled: true,
            pending: 3,
            ready,
            blocked: 0,
            unack: 1,
            retry: 0,
            dead,
            done: 0,
            outbox: 0,
            paused: false,
            late_ms: Some(61_000),
            next_due_in_ms: Some(5_000),
            fault: None,
            handler: None,
        }
    }

    fn model() -> Model {
        let topics = vec![topic("mail", 7, 0), topic("order.close", 2, 4)];
        let mut model = Model::default();
        model.saw(Snapshot { topics, ..Snapshot::default() });
        model
    }

    /// The screen as text, 80 columns by 24 lines.
    fn screen(model: &mut Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, model)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..24).map(line).collect::<Vec<_>>().join("\n")
    }

    fn press(model: &mut Model, keys: &str) -> Action {
        let mut action = Action::Nothing;
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                letter => KeyCode::Char(letter),
            };
            action = model.key(KeyEvent::from(code));
        }
        action
    }

    fn name(text: &str) -> TopicName {
        TopicName::new(text).unwrap()
    }

    #[test]
    fn a_small_terminal_shows_the_topics_and_details_of_the_selected_one() {
        let mut model = model();
        let text = screen(&mut model);
        for shown in
            ["2 topics by name", "order.close", "1m1s", "mail: pull · next due in 5s", "q quit"]
        {
            assert!(text.contains(shown), "{shown}:\n{text}");
        }
        press(&mut model, "ssss");
        let text = screen(&mut model);
        assert!(
            text.contains("by dead") && text.find("order.close") < text.find("mail "),
            "{text}"
        );
        press(&mut model, "/mai\n");
        assert!(!screen(&mut model).contains("order.close"));
        press(&mut model, "?");
        assert!(screen(&mut model).contains("pause or resume"));
        assert_eq!(press(&mut model, "q"), Action::Nothing, "any key closes the help");
        assert_eq!(press(&mut model, "q"), Action::Quit);
    }

    #[test]
    fn changes_ask_for_confirmation() {
        let mut model = model();
        assert_eq!(press(&mut model, "p"), Action::Nothing);
        assert!(screen(&mut model).contains("Pause mail?"));
        assert_eq!(press(&mut model, "n"), Action::Nothing);
        assert_eq!(press(&mut model, "py"), Action::Pause(name("mail")));
        assert_eq!(press(&mut model, "j\n"), Action::Refresh);
        let id = JobId::from_redis("42");
        let job = DeadSummary {
            id: id.clone(),
            died_at_ms: 1_763_740_800_000,
            class: Some("trap".to_owned()),
            reason: Some("un\x1b[31mreachable".to_owned()),
            attempt: Some(1),
        };
        model.saw_dead(vec![job]);
        let text = screen(&mut model);
        assert!(text.contains("trap") && text.contains("42") && !text.contains('\x1b'), "{text}");
        assert_eq!(press(&mut model, "\n"), Action::Details(name("order.close"), id.clone()));
        assert_eq!(press(&mut model, "ry"), Action::Requeue(name("order.close"), id));
        press(&mut model, "R");
        assert!(screen(&mut model).contains("Requeue all 4 dead jobs"));
        assert_eq!(press(&mut model, "y"), Action::RequeueAll(name("order.close")));
        press(&mut model, "\x1b");
        assert!(model.open.is_none());
    }

    #[test]
    fn the_selected_topic_stays_selected_when_others_appear() {
        let mut model = model();
        press(&mut model, "j");
        let topics =
            vec![topic("a.new.one", 0, 0), topic("mail", 1, 0), topic("order.close", 2, 4)];
        model.saw(Snapshot { topics, ..Snapshot::default() });
        assert_eq!(model.current().map(|topic| topic.topic.as_str()), Some("order.close"));
    }
}
