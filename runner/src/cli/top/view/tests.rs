//! The screens of `duebox top`, as text.

use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{DeadEntry, Job, JobState, ListedJob};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;
use crate::cli::stats::{self, Snapshot};
use crate::cli::top::model::Action;
use crate::observe::module_stats::Sums;
use crate::report::status::Status;
use crate::service::timeline::Timeline;

fn topic(name: &str, ready: u64, dead: u64) -> TopicStats {
    TopicStats {
        pending: 3,
        ready,
        unack: 1,
        dead,
        late_ms: Some(61_000),
        next_due_in_ms: Some(5_000),
        ..stats::tests::topic(name)
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
            '\t' => KeyCode::Tab,
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
    press(&mut model, "sssss");
    let text = screen(&mut model);
    assert!(text.contains("by dead") && text.find("order.close") < text.find("mail "), "{text}");
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
    let job = ListedJob {
        id: id.clone(),
        at_ms: 1_763_740_800_000,
        failures: 0,
        crashes: 0,
        class: Some("trap".to_owned()),
        reason: Some("un\x1b[31mreachable".to_owned()),
        attempt: Some(1),
    };
    model.saw_jobs(vec![job]);
    let text = screen(&mut model);
    assert!(text.contains("trap") && text.contains("42") && !text.contains('\x1b'), "{text}");
    // The reason is there in full, below the list.
    assert!(text.contains("42: trap: un") && text.contains("reachable"), "{text}");
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
    let topics = vec![topic("a.new.one", 0, 0), topic("mail", 1, 0), topic("order.close", 2, 4)];
    model.saw(Snapshot { topics, ..Snapshot::default() });
    assert_eq!(model.current().map(|topic| topic.topic.as_str()), Some("order.close"));
}

/// A daemon that has reported on `work`.
fn runner(told_at_ms: u64, attempts: u64, failed: u64) -> Status {
    let total = Sums { attempts, failed, ..Sums::default() };
    let json = serde_json::json!({
        "runner": "5-a", "version": "0.1.0", "pid": 5, "started_at_ms": 1_763_740_800_000_u64,
        "told_at_ms": told_at_ms,
        "process": {"slots": 64, "slots_used": 3, "memory_bytes": 52_428_800, "redis_ms": 0.25},
        "topics": [{"topic": "work", "late_p99_ms": 25.0, "modules": [], "total": total}],
    });
    serde_json::from_value(json).unwrap()
}

#[test]
fn the_failed_part_and_the_lateness_are_those_of_the_last_reports() {
    let mut model = Model::default();
    for runner in [runner(1_000, 100, 0), runner(2_000, 120, 5)] {
        let handler = stats::handlers::by_topic(std::slice::from_ref(&runner)).remove("work");
        let topics = vec![TopicStats { handler, ..stats::tests::topic("work") }];
        model.saw(Snapshot { topics, runners: vec![runner], ..Snapshot::default() });
    }
    let text = screen(&mut model);
    assert!(text.contains("20.0/s") && text.contains("25%") && text.contains("25ms"), "{text}");
    assert!(text.contains("120 attempts, 5 failed"), "{text}");
    press(&mut model, "d");
    let text = screen(&mut model);
    for shown in ["5-a", "0.1.0", "3/64", "50.0M", "0.2ms", "2025-11-21T16:00:00Z", "runs work"] {
        assert!(text.contains(shown), "{shown}:\n{text}");
    }
    press(&mut model, "d");
    assert!(screen(&mut model).contains("1 topics by name"));
}

#[test]
fn the_states_of_a_topic_are_shown_in_turn_and_only_dead_jobs_are_requeued() {
    let mut model = model();
    press(&mut model, "\n");
    assert!(screen(&mut model).contains("dead jobs of mail"));
    assert_eq!(press(&mut model, "\t\t"), Action::Refresh);
    let text = screen(&mut model);
    assert!(text.contains("pending jobs of mail") && text.contains("no pending jobs"), "{text}");
    let (id, class, reason, attempt) = (JobId::from_redis("7"), None, None, None);
    let job = ListedJob { id, at_ms: 0, failures: 0, crashes: 0, class, reason, attempt };
    model.saw_jobs(vec![job]);
    assert_eq!(press(&mut model, "r"), Action::Nothing);
    assert!(screen(&mut model).contains("only dead jobs can be requeued"));
}

/// A dead job with its record and its relatives.
fn dead_job(id: &str) -> (Job, Timeline) {
    let info = serde_json::json!({"class": "trap", "reason": "unreachable", "attempt": 3, "log": ["opening"]});
    let job = Job {
        id: JobId::from_redis(id.to_owned()),
        state: JobState::Dead,
        due_at_ms: None,
        payload: None,
        options: Ok(Options::default()),
        failures: 0,
        crashes: 0,
        snoozes: 0,
        lease: None,
        successor_due_at_ms: None,
        last_error: None,
        dead: Some(DeadEntry { died_at_ms: 1_763_740_800_000, info }),
        done: None,
        held_until_ms: None,
        now_ms: 1_763_740_801_000,
    };
    let life = Timeline {
        parent: Some("cart/7".to_owned()),
        follow_ups: vec!["mail/7.1".to_owned()],
        ..Timeline::default()
    };
    (job, life)
}

#[test]
fn the_shown_job_is_the_one_that_is_requeued() {
    let mut model = model();
    press(&mut model, "j\n");
    let listed = |id: &str| ListedJob {
        id: JobId::from_redis(id.to_owned()),
        at_ms: 0,
        failures: 0,
        crashes: 0,
        class: None,
        reason: None,
        attempt: None,
    };
    model.saw_jobs(vec![listed("42"), listed("43")]);
    model.found(Some(dead_job("42")));
    let text = screen(&mut model);
    for shown in
        ["class: trap", "opening", "parent: cart/7", "pushed: mail/7.1", "r requeue", "Esc back"]
    {
        assert!(text.contains(shown), "{shown}:\n{text}");
    }
    // The list has changed behind it.
    model.saw_jobs(vec![listed("43")]);
    let id = JobId::from_redis("42");
    assert_eq!(press(&mut model, "ry"), Action::Requeue(name("order.close"), id));
    let (mut job, life) = dead_job("42");
    (job.state, job.dead) = (JobState::Ready, None);
    model.found(Some((job, life)));
    assert_eq!(press(&mut model, "ry"), Action::Nothing);
    press(&mut model, "?");
    assert!(screen(&mut model).contains("pause or resume"));
}
