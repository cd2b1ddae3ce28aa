//! Where a session is shown: on a screen that takes keys, or as lines on stdout where there is no terminal.

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{
    Event as TerminalEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::session::Session;
use super::view::{self, View};
use crate::cli::support::failure::Failure;
use crate::cli::support::output;
use crate::cli::top::{read_events, terminal_failed};

/// The shortest time between two frames.
const FRAME: Duration = Duration::from_millis(30);
/// How often the screen shows how long a build runs.
const TICK: Duration = Duration::from_millis(500);

/// Shows a session.
pub(super) enum Display {
    Screen(Box<Screen>),
    Lines,
}

/// A terminal with a keyboard.
pub(super) struct Screen {
    terminal: ratatui::DefaultTerminal,
    events: mpsc::Receiver<TerminalEvent>,
    view: View,
}

impl Display {
    /// Takes the terminal, if stdin and stdout are one.
    pub(super) fn open() -> Result<Self, Failure> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Ok(Self::Lines);
        }
        let terminal = ratatui::try_init().map_err(terminal_failed)?;
        Ok(Self::Screen(Box::new(Screen {
            terminal,
            events: read_events(),
            view: View::default(),
        })))
    }

    /// Shows a session until it is over.
    pub(super) async fn run(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut next_frame, mut is_old) = (Instant::now(), true);
        loop {
            if is_old && Instant::now() >= next_frame {
                self.show(session)?;
                (next_frame, is_old) = (Instant::now() + self.frame(), false);
            }
            tokio::select! {
                event = session.next() => {
                    let goes_on = session.handle(event).await;
                    is_old = true;
                    if !matches!(goes_on, Ok(true)) {
                        self.show(session)?;
                        return goes_on.map(drop);
                    }
                }
                event = self.terminal_event() => {
                    if !self.react(event, session).await {
                        return Ok(());
                    }
                    is_old = true;
                }
                () = tokio::time::sleep_until(next_frame), if is_old => {}
                _ = tick.tick() => is_old = true,
            }
        }
    }

    /// Gives the terminal back; returns whether it had one.
    pub(super) fn close(&mut self) -> bool {
        let is_screen = matches!(self, Self::Screen(_));
        if is_screen {
            ratatui::restore();
        }
        is_screen
    }

    fn frame(&self) -> Duration {
        match self {
            Self::Screen(_) => FRAME,
            Self::Lines => Duration::ZERO,
        }
    }

    fn show(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let new = session.feed.take_new();
        match self {
            Self::Lines => new.iter().try_for_each(|entry| output::print(&entry.line())),
            Self::Screen(screen) => {
                let Screen { terminal, view, .. } = &mut **screen;
                let drawn = terminal.draw(|frame| {
                    view.keep_place(&new, frame.area().width);
                    view::draw(frame, session, view);
                });
                drawn.map(drop).map_err(terminal_failed)
            }
        }
    }

    /// What the terminal reports; never without one. `None` if it is closed.
    async fn terminal_event(&mut self) -> Option<TerminalEvent> {
        match self {
            Self::Screen(screen) => screen.events.recv().await,
            Self::Lines => std::future::pending().await,
        }
    }

    /// Reacts to the terminal; false to quit.
    async fn react(&mut self, event: Option<TerminalEvent>, session: &mut Session<'_>) -> bool {
        let Self::Screen(screen) = self else { return true };
        match event {
            Some(TerminalEvent::Key(key)) if key.kind != KeyEventKind::Release => {
                screen.key(key, session).await
            }
            // Another size.
            Some(_) => true,
            None => false,
        }
    }
}

impl Screen {
    /// Applies a key; false to quit.
    async fn key(&mut self, key: KeyEvent, session: &mut Session<'_>) -> bool {
        let page = usize::from(self.terminal.size().map_or(24, |size| size.height) / 2);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Char('q') => return false,
            KeyCode::Enter | KeyCode::Char('p') => session.push().await,
            KeyCode::Tab | KeyCode::Char('s') => session.samples.select_next(),
            KeyCode::Char('a') => session.pushes_changes = !session.pushes_changes,
            KeyCode::Char('b') => session.start_build(),
            KeyCode::Char('c') => {
                session.feed.clear();
                self.view.scroll_to_end();
            }
            KeyCode::Up | KeyCode::Char('k') => self.view.scroll_up(1),
            KeyCode::Down | KeyCode::Char('j') => self.view.scroll_down(1),
            KeyCode::PageUp => self.view.scroll_up(page),
            KeyCode::PageDown => self.view.scroll_down(page),
            KeyCode::End | KeyCode::Esc => self.view.scroll_to_end(),
            _ => {}
        }
        true
    }
}
