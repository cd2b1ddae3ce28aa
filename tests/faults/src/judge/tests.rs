//! The judge finds what must not be.

use super::*;
use crate::ledger::Ledger;

fn judged(ledger: &Ledger, state: &QueueState) -> Verdict {
    judge(&ledger.books(), state, &Policy::default(), (0, 0))
}

fn pushed(ledger: &Ledger, id: &str) -> Name {
    let name = Name::new("work", id);
    ledger.pushed(name.clone(), Answer::Ok, Instant::now());
    name
}

#[test]
fn a_confirmed_push_without_an_end_is_lost() {
    let ledger = Ledger::default();
    pushed(&ledger, "ack.1");
    let name = pushed(&ledger, "ack.2");
    ledger.answers(ledger.begins(name, 1, "r0-1", Some(1)));
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.confirmed, verdict.ended, verdict.lost), (2, 1, 1));
}

#[test]
fn a_lost_follow_up_is_lost() {
    let ledger = Ledger::default();
    let name = pushed(&ledger, "follow.1");
    ledger.answers(ledger.begins(name, 1, "r0-1", Some(1)));
    assert_eq!(judged(&ledger, &QueueState::default()).lost, 1);
}

#[test]
fn a_second_run_is_a_repeat_only_after_a_break() {
    let ledger = Ledger::default();
    let name = pushed(&ledger, "ack.1");
    ledger.answers(ledger.begins(name.clone(), 1, "r0-1", Some(1)));
    ledger.answers(ledger.begins(name, 1, "r1-1", Some(2)));
    assert_eq!(judged(&ledger, &QueueState::default()).duplicates, 1);
    ledger.broke("r0-1", Instant::now(), None);
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.duplicates, verdict.repeats), (0, 1));
}

#[test]
fn a_run_whose_lease_was_lost_may_end_a_moment_later() {
    let ledger = Ledger::default();
    let name = pushed(&ledger, "follow.1");
    let at = Instant::now();
    ledger.data_lost(at, at);
    let first = ledger.begins(name.clone(), 1, "r0-1", Some(1));
    ledger.answers(first);
    ledger.answers(ledger.begins(name.clone(), 1, "r1-1", Some(2)));
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.duplicates, verdict.repeats), (0, 1));
    std::thread::sleep(UNDER_WAY);
    ledger.answers(ledger.begins(name.clone(), 1, "r0-1", Some(3)));
    ledger.answers(ledger.begins(name, 1, "r1-1", Some(4)));
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.duplicates, verdict.lost, verdict.lost_with_data), (1, 1, 0));
}

#[test]
fn a_frozen_runner_may_end_a_job_that_another_one_has_ended() {
    let ledger = Ledger::default();
    let name = pushed(&ledger, "ack.1");
    let frozen = Instant::now();
    ledger.answers(ledger.begins(name.clone(), 1, "r1-1", Some(1)));
    let thawed = Instant::now();
    ledger.answers(ledger.begins(name, 1, "r0-1", Some(2)));
    assert_eq!(judged(&ledger, &QueueState::default()).duplicates, 1);
    ledger.broke("r2-1", frozen, Some(thawed));
    assert_eq!(judged(&ledger, &QueueState::default()).duplicates, 1);
    ledger.broke("r0-1", frozen, Some(thawed));
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.duplicates, verdict.repeats), (0, 1));
}

#[test]
fn a_frozen_runner_may_begin_a_job_next_to_another_one_of_its_key() {
    let ledger = Ledger::default();
    let frozen = Instant::now();
    let other = ledger.begins(Name::new("keyed", "key1.1"), 1, "r1-1", Some(1));
    let thawed = Instant::now();
    ledger.answers(ledger.begins(Name::new("keyed", "key1.2"), 1, "r0-1", Some(2)));
    ledger.answers(other);
    let overlap = || {
        let problems = judged(&ledger, &QueueState::default()).problems.join("; ");
        problems.contains("next to another job of its key")
    };
    assert!(overlap());
    ledger.broke("r2-1", frozen, Some(thawed));
    assert!(overlap(), "another runner was frozen");
    ledger.broke("r0-1", frozen, Some(thawed));
    assert!(!overlap());
}

#[test]
fn a_job_may_lose_two_runners_in_a_row() {
    let (ledger, state) = (Ledger::default(), QueueState::default());
    let lease = Duration::from_secs(2);
    let wait = |seconds: f64| {
        let (books, policy) = (ledger.books(), Policy::dead_runners(lease));
        let judge = Judge { ended: HashSet::new(), books: &books, state: &state, policy: &policy };
        let again = books.breaks[0].from + Duration::from_secs_f64(seconds);
        judge.wait_after_deaths(books.breaks[0].from, again).as_secs_f64()
    };
    let first = Instant::now();
    ledger.broke("r0-1", first, None);
    assert_eq!([wait(2.5), wait(3.5)], [2.5, 3.5]);
    ledger.broke("r1-1", first + Duration::from_millis(1_500), None);
    assert_eq!([wait(2.5), wait(3.5), wait(4.4)], [2.5, 2.0, 2.9]);
    assert_eq!([wait(4.6), wait(5.5)], [4.6, 5.5], "no second lease lasts so long");
}

#[test]
fn attempts_deaths_counts_and_keys_are_judged() {
    let ledger = Ledger::default();
    let name = pushed(&ledger, "nack1.1");
    for (attempt, count) in [(1, 1), (2, 2), (3, 2)] {
        ledger.answers(ledger.begins(name.clone(), attempt, "r0-1", Some(count)));
    }
    ledger.begins(Name::new("keyed", "key1.1"), 1, "r0-1", Some(1));
    ledger.begins(Name::new("keyed", "key1.2"), 1, "r0-1", Some(4));
    let mut state = QueueState::default();
    state.dead.insert(Name::new("work", "ack.9"), "crashed".to_owned());
    let problems = judged(&ledger, &state).problems.join("; ");
    for wrong in ["spent an attempt", "against its plan", "were lost", "without a run", "key"] {
        assert!(problems.contains(wrong), "{wrong}: {problems}");
    }
}

#[test]
fn a_fault_after_which_nothing_runs_fails() {
    let ledger = Ledger::default();
    let held = pushed(&ledger, "ack.1");
    ledger.begins(held.clone(), 1, "r0-1", Some(1));
    ledger.broke("r0-1", Instant::now(), None);
    ledger.fault_ended();
    let problems = judged(&ledger, &QueueState::default()).problems.join("; ");
    assert!(problems.contains("nothing ran after 1 faults"), "{problems}");
    assert!(problems.contains("1 never ran again"), "{problems}");
    ledger.answers(ledger.begins(held, 1, "r1-1", Some(2)));
    let verdict = judged(&ledger, &QueueState::default());
    assert!(verdict.problems.is_empty() && verdict.resumed.is_some(), "{verdict:?}");
}

#[test]
fn a_push_without_an_answer_is_judged_by_what_was_found() {
    let ledger = Ledger::default();
    let unknown = |id: &str| {
        let name = Name::new("work", id);
        ledger.pushed(name.clone(), Answer::Unknown, Instant::now());
        name
    };
    let [found, gone, ghost] = ["ack.1", "ack.2", "ack.3"].map(unknown);
    let problems = judged(&ledger, &QueueState::default()).problems.join("; ");
    assert!(problems.contains("3 pushed without an answer"), "{problems}");
    ledger.found(&found, true);
    for name in [&gone, &ghost] {
        ledger.found(name, false);
    }
    ledger.answers(ledger.begins(ghost, 1, "r0-1", Some(1)));
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.confirmed, verdict.found, verdict.lost), (1, 1, 1));
    let problems = verdict.problems.join("; ");
    assert!(problems.contains("although the push was refused: work/ack.3"), "{problems}");
}

#[test]
fn a_loss_is_excused_only_within_its_time() {
    let ledger = Ledger::default();
    pushed(&ledger, "ack.1");
    pushed(&ledger, "ack.2");
    let from = Instant::now();
    pushed(&ledger, "ack.3");
    ledger.data_lost(from, Instant::now());
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.lost, verdict.lost_with_data), (2, 1));
    assert!(verdict.notes.join("; ").contains("2 of 3 outside"), "{verdict:?}");
    pushed(&ledger, "ack.4");
    ledger.data_lost(from, Instant::now());
    let verdict = judged(&ledger, &QueueState::default());
    assert_eq!((verdict.lost, verdict.lost_with_data), (2, 2));
    ledger.data_lost(from.checked_sub(Duration::from_secs(9)).unwrap(), Instant::now());
    let problems = judged(&ledger, &QueueState::default()).problems.join("; ");
    assert!(problems.contains("only 0 of 4"), "{problems}");
}
