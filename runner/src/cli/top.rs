//! `duebox top`: `duebox stats`, `duebox list` and `duebox get`, live on a terminal, with actions.
//!
//! It queries Redis once a second and after each action. A separate thread reads the keyboard, so a
//! slow Redis does not delay keys. Every action that changes something asks for confirmation.

mod model;
mod rates;
mod sort;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_queue::{DeadQuery, JobQuery, Queue, Requeued};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use self::model::{Action, Model};
use super::support::failure::Failure;
use super::support::target;
use super::{Common, get, stats};
use crate::manifest::Manifest;

/// Refresh interval.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of queued key events.
const KEYS_MAX: usize = 64;
/// How often the keyboard thread checks whether it should stop.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Jobs listed of a topic and a state.
const JOBS_MAX: usize = 200;

/// Watch topics live, and act on them
///
/// Shows each topic's job counts, rate, lateness, failures, module, and what blocks its jobs; the running
/// daemons; the jobs of a topic by state, and one job with its timeline. Pauses, resumes and requeues after
/// confirmation. Needs a terminal of at least 80 columns and 24 lines. Press ? for the keys.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox top
  duebox top --redis-url redis://10.0.0.5:6379/0

Exit codes:
  0  quit with q or Ctrl-C
  1  Redis failed at the start, or there is no terminal
  2  bad input")]
pub(super) struct TopArgs {}

/// An event of the main loop.
enum LoopEvent {
    Tick,
    Key(KeyEvent),
    /// The terminal was resized or needs a redraw.
    Redraw,
    Closed,
}

pub(super) fn top(common: &Common, _: &TopArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::failed(
            "duebox top needs a terminal",
            "for programs use: duebox stats --watch --json",
        ));
    }
    target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let mut model = Model::default();
        model.saw(stats::look(&queue, &manifest, &[]).await?);
        let mut terminal = ratatui::try_init().map_err(terminal_failed)?;
        let ended = run(&mut terminal, model, &queue, &manifest).await;
        ratatui::restore();
        ended.map(|()| ExitCode::SUCCESS)
    })
}

pub(super) fn terminal_failed(error: io::Error) -> Failure {
    Failure::failed(format!("the terminal failed: {error}"), "run it in another terminal")
}

async fn run(
    terminal: &mut ratatui::DefaultTerminal,
    mut model: Model,
    queue: &Queue,
    manifest: &Manifest,
) -> Result<(), Failure> {
    let mut events = read_events();
    let mut tick = tokio::time::interval(REFRESH_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| view::draw(frame, &mut model)).map_err(terminal_failed)?;
        let event = tokio::select! {
            _ = tick.tick() => LoopEvent::Tick,
            event = events.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => LoopEvent::Key(key),
                Some(_) => LoopEvent::Redraw,
                None => LoopEvent::Closed,
            },
        };
        let action = match event {
            LoopEvent::Tick => Action::Refresh,
            LoopEvent::Key(key) => model.key(key),
            LoopEvent::Redraw => Action::Nothing,
            LoopEvent::Closed => Action::Quit,
        };
        if action == Action::Quit {
            return Ok(());
        }
        // A failure is shown on the screen; the next refresh retries.
        if let Err(failure) = perform(action, &mut model, queue, manifest).await {
            model.record_failure(failure.message());
        }
    }
}

/// Terminal events, read until the receiver is dropped.
pub(super) fn read_events() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let read = match event::poll(KEY_WAIT) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let Ok(event) = read else { return };
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}

async fn perform(
    action: Action,
    model: &mut Model,
    queue: &Queue,
    manifest: &Manifest,
) -> Result<(), Failure> {
    match action {
        Action::Nothing | Action::Quit => return Ok(()),
        Action::Refresh => {}
        Action::Pause(topic) => {
            queue.pause(&topic).await?;
            model.did(format!("paused {topic}"));
        }
        Action::Resume(topic) => {
            queue.resume(&topic).await?;
            model.did(format!("resumed {topic}"));
        }
        Action::Requeue(topic, id) => {
            let answers = queue.requeue(&topic, std::slice::from_ref(&id)).await?;
            model.did(match answers.first() {
                Some(Requeued::Ok) => format!("requeued {id}"),
                Some(Requeued::Exists) => format!("{id} stays dead: a live job has that id"),
                _ => format!("{id} is no longer dead"),
            });
            if model.is_detailed() {
                model.found(get::look_up(queue, &topic, &id).await?);
            }
        }
        Action::RequeueAll(topic) => {
            let many = queue.requeue_matching(&topic, &DeadQuery::default()).await?;
            model.did(format!("requeued {} jobs, {} stay dead", many.requeued, many.exists));
        }
        Action::Details(topic, id) => {
            model.found(get::look_up(queue, &topic, &id).await?);
            return Ok(());
        }
    }
    model.saw(stats::look(queue, manifest, &[]).await?);
    if let Some((topic, state)) = model.listed() {
        let query = JobQuery { limit: JOBS_MAX, ..JobQuery::new(state) };
        model.saw_jobs(queue.list_state(&topic, &query).await?.jobs);
    }
    Ok(())
}
