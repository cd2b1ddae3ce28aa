//! The jobs of an opened topic: the list of one state, and one job with its timeline.

use duebox_queue::{Job, JobState, ListedJob};
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::widgets::{Block, Paragraph, Row, Table, Wrap};

use super::{HEAD, SELECTED, WIDE};
use crate::cli::get;
use crate::cli::support::output;
use crate::cli::top::model::Open;
use crate::service::timeline::Timeline;

/// Bytes of a payload that are shown.
const PAYLOAD_MAX: usize = 4 << 10;

/// Draws the jobs of the state that is listed.
pub(super) fn draw_list(frame: &mut Frame<'_>, area: Rect, open: &mut Open) {
    if open.jobs.is_empty() {
        let none =
            format!("this topic has no {} jobs; Tab shows the next state", open.state.shown());
        frame.render_widget(Paragraph::new(none), area);
        return;
    }
    let row = |job: &ListedJob| {
        Row::new([
            output::one_line(&job.id.to_string()),
            output::time(job.at_ms / 1_000 * 1_000),
            job.class.clone().unwrap_or_default(),
            output::one_line(job.reason.as_deref().unwrap_or_default()),
        ])
    };
    // On a narrow terminal the reason needs the room more than the end of a long id.
    let id_max = if area.width >= WIDE { 36 } else { 24 };
    let ids = open.jobs.iter().map(|job| job.id.to_string().chars().count());
    let id = Constraint::Length(ids.max().unwrap_or(0).clamp(8, id_max) as u16);
    let widths = [id, Constraint::Length(20), Constraint::Length(14), Constraint::Min(4)];
    let head = Row::new(["id", time_of(open.state), "class", "reason"]).style(HEAD);
    let table =
        Table::new(open.jobs.iter().map(row), widths).header(head).row_highlight_style(SELECTED);
    frame.render_stateful_widget(table, area, &mut open.table);
}

/// Why the last attempt of the selected job failed; its whole id.
pub(super) fn about_selected(open: &Open) -> Option<String> {
    let job = open.selected()?;
    let why = [&job.class, &job.reason].into_iter().flatten().map(String::as_str);
    let why = why.collect::<Vec<_>>().join(": ");
    let id = output::one_line(&job.id.to_string());
    Some(if why.is_empty() { id } else { format!("{id}: {}", output::one_line(&why)) })
}

/// What the time of a job in this state is.
fn time_of(state: JobState) -> &'static str {
    match state {
        JobState::Pending | JobState::Ready | JobState::Blocked => "due",
        JobState::Unack => "lease ends",
        JobState::Retry => "next attempt",
        JobState::Dead => "died",
        JobState::Done | JobState::Held => "done",
    }
}

/// Draws one job.
pub(super) fn draw_details(
    frame: &mut Frame<'_>,
    area: Rect,
    (job, life): (&Job, &Timeline),
    scroll: u16,
) {
    let block = Block::bordered().title(format!(" {} ", output::one_line(&job.id.to_string())));
    let text = Paragraph::new(details(job, life)).wrap(Wrap { trim: false }).scroll((scroll, 0));
    frame.render_widget(text.block(block), area);
}

/// The record of a job, one item per line.
fn details(job: &Job, life: &Timeline) -> String {
    let mut lines = vec![format!("state: {}", job.state.word())];
    if job.failures > 0 {
        lines.push(format!("failed attempts: {}", job.failures));
    }
    let dead = job.dead.as_ref().map(|dead| &dead.info);
    if let Some(info) = dead.or(job.last_error.as_ref()) {
        for name in ["class", "reason", "attempt", "digest", "wall_ms", "runner", "trace"] {
            match &info[name] {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => {
                    lines.push(format!("{name}: {}", plain_lines(text)));
                }
                value => lines.push(format!("{name}: {value}")),
            }
        }
        let log = info["log"].as_array().into_iter().flatten();
        let log: Vec<String> = log.filter_map(|line| Some(plain_lines(line.as_str()?))).collect();
        if !log.is_empty() {
            lines.push(format!("log:\n  {}", log.join("\n  ")));
        }
    }
    let moments = get::timeline_lines(life);
    if !moments.is_empty() {
        lines.push(format!("timeline:\n  {}", moments.join("\n  ")));
    }
    if let Some(parent) = &life.parent {
        lines.push(format!("parent: {}", output::one_line(parent)));
    }
    if !life.follow_ups.is_empty() {
        let names: Vec<String> =
            life.follow_ups.iter().map(|name| output::one_line(name)).collect();
        lines.push(format!("pushed: {}", names.join(", ")));
    }
    if let Some(trace) = &life.trace_id {
        lines.push(format!("trace id: {trace}"));
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
