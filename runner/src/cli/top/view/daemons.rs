//! The running daemons: version, since when, slots, memory, the round trip to Redis, and what each runs.

use bytesize::ByteSize;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::{BAD, HEAD, SELECTED};
use crate::cli::support::output;
use crate::cli::top::model::Model;
use crate::report::status::Status;

/// Draws the daemons.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &mut Model) {
    let rows: Vec<Row<'static>> = model.runners().iter().map(row).collect();
    let Some(table_state) = &mut model.daemons else { return };
    if rows.is_empty() {
        frame.render_widget(Paragraph::new("no daemon runs"), area);
        return;
    }
    let widths = [16, 8, 20, 6, 9, 8].map(Constraint::Length);
    let head = ["daemon", "version", "since", "topics", "slots", "memory", "Redis"];
    let table = Table::new(rows, widths.into_iter().chain([Constraint::Min(6)]))
        .header(Row::new(head).style(HEAD))
        .row_highlight_style(SELECTED);
    frame.render_stateful_widget(table, area, table_state);
}

fn row(runner: &Status) -> Row<'static> {
    let process = &runner.process;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let memory =
        process.memory_bytes.map(|bytes| ByteSize(bytes).display().iec_short().to_string());
    let redis = process.redis_ms.map(|ms| format!("{ms:.1}ms"));
    let topics = runner.topics.len() + runner.more_topics;
    let row = Row::new([
        Cell::from(output::one_line(&runner.runner)),
        Cell::from(output::one_line(&runner.version)),
        Cell::from(output::time(runner.started_at_ms / 1_000 * 1_000)),
        Cell::from(topics.to_string()),
        Cell::from(format!("{}/{}", process.slots_used, process.slots)),
        Cell::from(or_none(memory)),
        Cell::from(or_none(redis)),
    ]);
    if runner.manifest_refused.is_some() { row.style(BAD) } else { row }
}

/// What the selected daemon runs.
pub(super) fn about_selected(model: &Model) -> String {
    let selected = model.daemons.as_ref().and_then(|table| table.selected());
    let Some(runner) = selected.and_then(|at| model.runners().get(at)) else {
        return String::new();
    };
    let mut parts = vec![format!("{}: process {}", output::one_line(&runner.runner), runner.pid)];
    parts.extend(runner.api.map(|api| format!("HTTP on {api}")));
    if let Some(refusal) = &runner.manifest_refused {
        parts.push(format!("refuses its manifest: {}", output::one_line(&refusal.problem)));
    }
    let names = runner.topics.iter().map(|topic| output::one_line(&topic.topic));
    parts.push(format!("runs {}", names.collect::<Vec<_>>().join(", ")));
    parts.join(" · ")
}
