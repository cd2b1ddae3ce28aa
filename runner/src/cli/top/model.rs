//! The state of `duebox top`, and how keys change it. It touches neither the terminal nor Redis: a
//! key returns an [`Action`], and the caller reports its result.

use duebox_job::{JobId, TopicName};
use duebox_queue::{Job, JobState, ListedJob};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::rates::Rates;
use super::sort::SortBy;
use crate::cli::stats::{Snapshot, TopicStats};
use crate::report::status::Status;
use crate::service::timeline::Timeline;

/// The longest filter, in characters.
const FILTER_MAX: usize = 64;

/// An action for the caller to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    Refresh,
    Pause(TopicName),
    Resume(TopicName),
    Requeue(TopicName, JobId),
    RequeueAll(TopicName),
    Details(TopicName, JobId),
}

/// What keys do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Browse,
    /// They edit the filter.
    Filter,
    /// They answer a question; `y` returns the action.
    Ask(String, Action),
    /// They close the help.
    Help,
}

/// Everything that is shown.
#[derive(Default)]
pub(super) struct Model {
    pub(super) snapshot: Option<Snapshot>,
    pub(super) rates: Rates,
    pub(super) order: SortBy,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) topics: TableState,
    /// The last action, or the last failure.
    pub(super) notice: String,
    pub(super) open: Option<Open>,
    /// The selected daemon, while the daemons are shown.
    pub(super) daemons: Option<TableState>,
    /// The selected topic; it stays selected when others appear or disappear.
    selected: Option<TopicName>,
}

/// An opened topic.
pub(super) struct Open {
    pub(super) topic: TopicName,
    /// The state whose jobs are listed.
    pub(super) state: JobState,
    pub(super) jobs: Vec<ListedJob>,
    pub(super) table: TableState,
    pub(super) details: Option<(Job, Timeline)>,
    /// Lines of the details above the visible part.
    pub(super) scroll: u16,
}

impl Open {
    /// The selected job.
    pub(super) fn selected(&self) -> Option<&ListedJob> {
        self.table.selected().and_then(|at| self.jobs.get(at))
    }

    /// Lists the state that comes so many states later.
    fn show_state(&mut self, by: usize) -> Action {
        let states = JobState::LISTED;
        let at = states.iter().position(|state| *state == self.state).unwrap_or(0);
        self.state = states[(at + by) % states.len()];
        self.jobs.clear();
        self.table.select(None);
        Action::Refresh
    }
}

impl Model {
    pub(super) fn saw(&mut self, snapshot: Snapshot) {
        self.rates.saw(&snapshot.runners);
        self.snapshot = Some(snapshot);
        self.keep_selection();
    }

    /// Takes the jobs of the opened topic and state. The selected job stays selected.
    pub(super) fn saw_jobs(&mut self, jobs: Vec<ListedJob>) {
        if let Some(open) = &mut self.open {
            let selected =
                open.table.selected().and_then(|at| open.jobs.get(at)).map(|job| job.id.clone());
            let at = selected.and_then(|id| jobs.iter().position(|job| job.id == id));
            let first = if jobs.is_empty() { None } else { Some(0) };
            open.jobs = jobs;
            open.table.select(at.or(first));
        }
    }

    /// Takes the job that was looked up.
    pub(super) fn found(&mut self, job: Option<(Job, Timeline)>) {
        if job.is_none() {
            self.notice = "the job is gone".to_owned();
        }
        if let Some(open) = &mut self.open {
            (open.details, open.scroll) = (job, 0);
        }
    }

    /// Whether one job is shown.
    pub(super) fn is_detailed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.details.is_some())
    }

    pub(super) fn did(&mut self, what: String) {
        self.notice = what;
    }

    pub(super) fn record_failure(&mut self, why: &str) {
        self.notice = format!("failed: {why}");
    }

    /// The opened topic.
    pub(super) fn opened(&self) -> Option<&TopicName> {
        self.open.as_ref().map(|open| &open.topic)
    }

    /// The opened topic and the state whose jobs are listed.
    pub(super) fn listed(&self) -> Option<(TopicName, JobState)> {
        self.open.as_ref().map(|open| (open.topic.clone(), open.state))
    }

    /// The running daemons.
    pub(super) fn runners(&self) -> &[Status] {
        self.snapshot.as_ref().map(|snapshot| snapshot.runners.as_slice()).unwrap_or_default()
    }

    /// The visible topics, sorted.
    pub(super) fn rows(&self) -> Vec<&TopicStats> {
        let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.topics);
        let mut rows: Vec<&TopicStats> =
            all.filter(|topic| topic.topic.contains(&self.filter)).collect();
        self.order.sort(&mut rows, &self.rates);
        rows
    }

    /// The topic that keys apply to.
    pub(super) fn current(&self) -> Option<&TopicStats> {
        if let Some(open) = &self.open {
            let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.topics);
            return all.into_iter().find(|topic| topic.topic == open.topic.as_str());
        }
        let rows = self.rows();
        self.topics.selected().and_then(|at| rows.get(at).copied())
    }

    /// Applies a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        self.notice.clear();
        match std::mem::take(&mut self.mode) {
            Mode::Help => Action::Nothing,
            Mode::Filter => self.filter_key(key.code),
            Mode::Ask(question, action) => self.answer_key(key.code, question, action),
            Mode::Browse if self.open.is_some() => self.open_key(key.code),
            Mode::Browse if self.daemons.is_some() => self.daemons_key(key.code),
            Mode::Browse => self.topics_key(key.code),
        }
    }

    fn filter_key(&mut self, code: KeyCode) -> Action {
        self.mode = Mode::Filter;
        match code {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => (self.mode, self.filter) = (Mode::Browse, String::new()),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.chars().count() < FILTER_MAX => {
                self.filter.push(letter);
            }
            _ => {}
        }
        self.keep_selection();
        Action::Nothing
    }

    fn answer_key(&mut self, code: KeyCode, question: String, action: Action) -> Action {
        match code {
            KeyCode::Char('y') => action,
            KeyCode::Char('n') | KeyCode::Esc => Action::Nothing,
            _ => {
                self.mode = Mode::Ask(question, action);
                Action::Nothing
            }
        }
    }

    fn topics_key(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('p') => self.ask_pause(),
            KeyCode::Char('d') => self.daemons = Some(TableState::new().with_selected(0)),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(10),
            KeyCode::PageUp => self.select(-10),
            KeyCode::Enter => return self.open_topic(),
            _ => {}
        }
        self.keep_selection();
        Action::Nothing
    }

    fn daemons_key(&mut self, code: KeyCode) -> Action {
        let rows = self.runners().len();
        let Some(table) = &mut self.daemons else { return Action::Nothing };
        match code {
            KeyCode::Esc | KeyCode::Char('q' | 'd') => self.daemons = None,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Down | KeyCode::Char('j') => step(table, rows, 1),
            KeyCode::Up | KeyCode::Char('k') => step(table, rows, -1),
            KeyCode::PageDown => step(table, rows, 10),
            KeyCode::PageUp => step(table, rows, -10),
            _ => {}
        }
        Action::Nothing
    }

    fn open_key(&mut self, code: KeyCode) -> Action {
        let Some(open) = &mut self.open else { return Action::Nothing };
        if open.details.is_some() {
            match code {
                KeyCode::Esc | KeyCode::Char('q') => open.details = None,
                KeyCode::Down | KeyCode::Char('j') => open.scroll = open.scroll.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => open.scroll = open.scroll.saturating_sub(1),
                KeyCode::PageDown => open.scroll = open.scroll.saturating_add(10),
                KeyCode::PageUp => open.scroll = open.scroll.saturating_sub(10),
                KeyCode::Char('?') => self.mode = Mode::Help,
                KeyCode::Char('r') => self.ask_requeue(),
                _ => {}
            }
            return Action::Nothing;
        }
        match code {
            KeyCode::Esc | KeyCode::Char('q') => self.open = None,
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('p') => self.ask_pause(),
            KeyCode::Char('r') => self.ask_requeue(),
            KeyCode::Char('R') => self.ask_requeue_all(),
            KeyCode::Tab => return open.show_state(1),
            KeyCode::BackTab => return open.show_state(JobState::LISTED.len() - 1),
            KeyCode::Down | KeyCode::Char('j') => step(&mut open.table, open.jobs.len(), 1),
            KeyCode::Up | KeyCode::Char('k') => step(&mut open.table, open.jobs.len(), -1),
            KeyCode::PageDown => step(&mut open.table, open.jobs.len(), 10),
            KeyCode::PageUp => step(&mut open.table, open.jobs.len(), -10),
            KeyCode::Enter => {
                if let Some(job) = open.selected() {
                    return Action::Details(open.topic.clone(), job.id.clone());
                }
            }
            _ => {}
        }
        Action::Nothing
    }

    fn open_topic(&mut self) -> Action {
        let topic = self.current().and_then(|topic| TopicName::new(&topic.topic).ok());
        let Some(topic) = topic else { return Action::Nothing };
        self.open = Some(Open {
            topic,
            state: JobState::Dead,
            jobs: Vec::new(),
            table: TableState::default(),
            details: None,
            scroll: 0,
        });
        Action::Refresh
    }

    fn ask_pause(&mut self) {
        let Some(current) = self.current() else { return };
        let Ok(topic) = TopicName::new(&current.topic) else { return };
        self.mode = match current.paused {
            true => Mode::Ask(format!("Resume {topic}?"), Action::Resume(topic)),
            false => Mode::Ask(
                format!("Pause {topic}? No runner starts its jobs until it is resumed."),
                Action::Pause(topic),
            ),
        };
    }

    /// Asks about the job that is shown, or else the selected one.
    fn ask_requeue(&mut self) {
        let Some(open) = &self.open else { return };
        let (id, is_dead) = match (&open.details, open.selected()) {
            (Some((job, _)), _) => (job.id.clone(), job.dead.is_some()),
            (None, Some(job)) => (job.id.clone(), open.state == JobState::Dead),
            (None, None) => return,
        };
        if !is_dead {
            self.notice = "only dead jobs can be requeued; Tab shows another state".to_owned();
            return;
        }
        let question = format!("Requeue {id}? It runs again, with all its attempts.");
        self.mode = Mode::Ask(question, Action::Requeue(open.topic.clone(), id));
    }

    fn ask_requeue_all(&mut self) {
        let Some(topic) = self.opened().cloned() else { return };
        let dead = self.current().map_or(0, |topic| topic.dead);
        if dead > 0 {
            let question = format!("Requeue all {dead} dead jobs of {topic}?");
            self.mode = Mode::Ask(question, Action::RequeueAll(topic));
        }
    }

    fn select(&mut self, by: i64) {
        let rows = self.rows().len();
        step(&mut self.topics, rows, by);
        let name = self.current().and_then(|topic| TopicName::new(&topic.topic).ok());
        self.selected = name;
    }

    /// Keeps the selected topic selected at its new position.
    fn keep_selection(&mut self) {
        let rows = self.rows();
        let position = |name: &TopicName| rows.iter().position(|row| row.topic == name.as_str());
        let at = self.selected.as_ref().and_then(position);
        let first = if rows.is_empty() { None } else { Some(0) };
        self.topics.select(at.or(first));
    }
}

fn step(table: &mut TableState, rows: usize, by: i64) {
    let at = table.selected().map_or(0, |at| at as i64 + by);
    let last = rows.saturating_sub(1) as i64;
    table.select((rows > 0).then(|| at.clamp(0, last) as usize));
}
