//! `duebox top`: what `duebox stats` and `duebox dead` tell, live at a terminal, with what one does about it.
//!
//! A look at Redis a second, and one for each thing that is done; keys are read on a thread of their own, so
//! that a slow Redis holds up no key. Whatever changes something asks first.

mod model;
mod rates;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_queue::{DeadQuery, PageQuery, Queue, Requeued};
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use self::model::{Model, Wish};
use super::support::failure::Failure;
use super::support::target;
use super::{Common, stats};
use crate::manifest::Manifest;

/// How often Redis is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Keys that wait to be followed.
const KEYS_MAX: usize = 64;
/// How often the thread of the keys looks whether it is still wanted.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Dead jobs that are listed of a topic: the last to die.
const DEAD_MAX: usize = 200;

/// Watch topics live, and repair what is broken
///
/// Shows each topic's depth, rate, lateness and failures, which module serves it, and what holds its jobs
/// back; opens a topic to its dead jobs with their evidence; pauses, resumes and requeues after asking. Needs
/// a terminal of 80 columns and 24 lines or more. Press ? for the keys.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox top
  duebox top --redis-url redis://10.0.0.5:6379/0

Exit codes:
  0  ended by q or Ctrl-C
  1  Redis failed at the start, or there is no terminal
  2  bad input")]
pub(super) struct TopArgs {}

/// What woke the loop.
enum Woken {
    Tick,
    Key(KeyEvent),
    /// The terminal has another size, or wants to be drawn anew.
    Drawn,
    Gone,
}

pub(super) fn top(common: &Common, _: &TopArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::failed(
            "duebox top needs a terminal",
            "duebox stats --watch --json tells the same to programs",
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

fn terminal_failed(error: io::Error) -> Failure {
    Failure::failed(format!("the terminal failed: {error}"), "run it in another one")
}

async fn run(
    terminal: &mut ratatui::DefaultTerminal,
    mut model: Model,
    queue: &Queue,
    manifest: &Manifest,
) -> Result<(), Failure> {
    let mut events = read_events();
    let mut tick = tokio::time::interval(LOOK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| view::draw(frame, &mut model)).map_err(terminal_failed)?;
        let woken = tokio::select! {
            _ = tick.tick() => Woken::Tick,
            event = events.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => Woken::Key(key),
                Some(_) => Woken::Drawn,
                None => Woken::Gone,
            },
        };
        let wish = match woken {
            Woken::Tick => Wish::Look,
            Woken::Key(key) => model.key(key),
            Woken::Drawn => Wish::Nothing,
            Woken::Gone => Wish::Quit,
        };
        if wish == Wish::Quit {
            return Ok(());
        }
        // What fails is told on the screen, and tried again with the next look.
        if let Err(failure) = follow(wish, &mut model, queue, manifest).await {
            model.failed(&failure.message());
        }
    }
}

/// Events of the terminal, until nobody takes them any more.
fn read_events() -> mpsc::Receiver<Event> {
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

async fn follow(
    wish: Wish,
    model: &mut Model,
    queue: &Queue,
    manifest: &Manifest,
) -> Result<(), Failure> {
    match wish {
        Wish::Nothing | Wish::Quit => return Ok(()),
        Wish::Look => {}
        Wish::Pause(topic) => {
            queue.pause(&topic).await?;
            model.did(format!("paused {topic}"));
        }
        Wish::Resume(topic) => {
            queue.resume(&topic).await?;
            model.did(format!("resumed {topic}"));
        }
        Wish::Requeue(topic, id) => {
            let answers = queue.requeue(&topic, std::slice::from_ref(&id)).await?;
            model.did(match answers.first() {
                Some(Requeued::Ok) => format!("requeued {id}"),
                Some(Requeued::Exists) => format!("{id} stays dead: a job of that id is alive"),
                _ => format!("{id} is dead no more"),
            });
        }
        Wish::RequeueAll(topic) => {
            let many = queue.requeue_matching(&topic, &DeadQuery::default()).await?;
            model.did(format!("requeued {} jobs, {} stay dead", many.requeued, many.exists));
        }
        Wish::Evidence(topic, id) => {
            let job = queue.get(&topic, &id).await?;
            model.found(job);
            return Ok(());
        }
    }
    model.saw(stats::look(queue, manifest, &[]).await?);
    if let Some(topic) = model.opened().cloned() {
        let page = PageQuery { limit: DEAD_MAX, ..PageQuery::default() };
        let dead = queue.list_dead(&topic, &DeadQuery { page, ..DeadQuery::default() }).await?;
        model.saw_dead(dead.jobs);
    }
    Ok(())
}
