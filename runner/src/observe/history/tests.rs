//! What the history keeps, how far back, and in how much memory.

use super::*;
use crate::observe::tally::Tally;

const START: u64 = 1_800_000_000_000;

fn name(number: usize) -> TopicName {
    TopicName::new(&format!("topic-{number:04}")).unwrap()
}

/// Acked attempts, each with a lateness and a run time.
fn acked(attempts: u32) -> Sample {
    let mut tally = Tally::default();
    for index in [0, 4, 24] {
        tally.add(index, attempts);
    }
    Sample::of(tally)
}

fn attempts(samples: &[Sample]) -> Vec<u32> {
    samples.iter().map(|sample| sample.tally.attempts()).collect()
}

#[test]
fn each_resolution_has_what_happened_and_reaches_back_as_far_as_it_should() {
    let history = History::new(START);
    let total = Sample { redis_us: 200, ..Sample::default() };
    for second in 0..3 * 3_600 {
        let topics = [(name(1), acked(1)), (name(2), acked(2))];
        history.add(START + second * SECOND, &topics, &total);
    }
    let now = START + 3 * 3_600 * SECOND - 1;
    for (span, step) in [(600, 5), (3_600, 30), (3 * 3_600, 90)] {
        let window = history.window(now, span * SECOND, 120, true);
        assert_eq!((window.step_ms, window.steps), (step * SECOND, 120));
        let one = history.sum(window, |topic| *topic == name(1));
        assert_eq!(attempts(&one), vec![step as u32; 120], "{span} s");
        let all = history.total(window);
        assert_eq!(attempts(&all), vec![3 * step as u32; 120], "{span} s");
        assert_eq!(all[7].redis_us, 200);
        let by_topic = history.by_topic(window);
        assert_eq!(by_topic[&name(2)], vec![(2 * step as u32, 0); 120]);
    }
    let recent = history.recent(now);
    assert_eq!(recent[&name(2)].sample.tally.attempts(), 1_200);
    assert_eq!(recent[&name(2)].last.0, 20);
}

#[test]
fn a_thousand_busy_topics_take_two_megabytes_and_their_sum_stays_exact() {
    let history = History::new(START);
    let topics: Vec<_> = (0..1_000).map(|number| (name(number), acked(3))).collect();
    for second in 0..660 {
        history.add(START + second * SECOND, &topics, &Sample::default());
    }
    let bytes = history.bytes();
    assert!(bytes <= 2 << 20, "{bytes} bytes");
    let now = START + 660 * SECOND - 1;
    let window = history.window(now, 600 * SECOND, 120, false);
    assert_eq!(attempts(&history.total(window)), vec![15_000; 120]);
    // The steps of a topic are coarser, but none is missing.
    let window = history.window(now, 600 * SECOND, 120, true);
    assert_eq!(window.step_ms, MINUTE);
    assert_eq!(attempts(&history.sum(window, |topic| *topic == name(7))), vec![180; 10]);
}

/// The steps in which a topic has attempts, of a window by topic.
fn reach(history: &History, now: u64, span: u64) -> usize {
    let window = history.window(now, span, 2_880, true);
    let steps = attempts(&history.sum(window, |topic| *topic == name(7)));
    steps.iter().filter(|attempts| **attempts > 0).count()
}

#[test]
fn full_rings_of_a_thousand_topics_take_two_megabytes() {
    let history = History::new(START);
    let mut tally = Tally::default();
    // An ack, a snooze, two classes, and times in several buckets.
    for (index, count) in [(0, 3), (1, 1), (4, 2), (6, 1), (24, 3), (26, 1), (40, 1), (45, 1)] {
        tally.add(index, count);
    }
    let topics: Vec<_> = (0..1_000).map(|number| (name(number), Sample::of(tally))).collect();
    let seen = Sample {
        waiting: 30,
        overdue_ms: 900,
        redis_us: 300,
        is_counted: true,
        ..Sample::default()
    };
    // One topic a second fills the sums of two days; then all topics are busy for an hour.
    let busy = 48 * 3_600 - 3_600;
    for second in 0..48 * 3_600 {
        let is_busy = second >= busy && second % 10 == 0;
        let some = if is_busy { &topics[..] } else { &topics[..1] };
        history.add(START + second * SECOND, some, &seen);
    }
    let now = START + 48 * 3_600 * SECOND - 1;
    let bytes = history.bytes();
    assert!(bytes <= 2_000_000, "{bytes} bytes");
    let window = history.window(now, 48 * 3_600 * SECOND, 720, false);
    let sums = history.total(window);
    assert!(
        sums.iter().skip(1).all(|step| step.tally.attempts() > 0),
        "two days, all topics together"
    );
    // What was dropped is not known to be nothing.
    let window = history.window(now, 48 * 3_600 * SECOND, 720, true);
    let known_from_ms = history.known_from_ms(window, true);
    assert!((now - 60 * MINUTE..now).contains(&known_from_ms), "{known_from_ms}");
    assert_eq!(history.known_from_ms(window, false), START);
    // Documented in http.md: single topics of a thousand busy ones reach back about twenty minutes.
    let minutes = reach(&history, now, 48 * 3_600 * SECOND);
    assert!((15..60).contains(&minutes), "{minutes} minutes");
}

#[test]
fn steps_of_other_daemons_lie_before_the_own_ones_and_add_up_with_them() {
    let mut own = OwnSteps::default();
    let counted = || Counted { at_ms: START, tallies: Vec::new() };
    for minute in 0..3 {
        let more = [(name(1), acked(minute + 1))];
        own.add(START - 30 * MINUTE + u64::from(minute) * MINUTE, &more, &Sample::default());
    }
    let other = PublishedHistory::read(&own.publication(counted).unwrap().set);
    let history = History::new(START);
    history.add(START, &[(name(2), acked(5))], &Sample::default());
    history.add_past(START, &other);
    history.add_past(START, &other);
    assert_eq!(history.since_ms(), START - 30 * MINUTE);
    assert_eq!(history.began_ms(), START);
    let window = history.window(START, 60 * MINUTE, 60, true);
    assert_eq!(window.step_ms, MINUTE);
    let one = attempts(&history.sum(window, |topic| *topic == name(1)));
    assert_eq!(one.iter().sum::<u32>(), 12);
    assert_eq!(one[29..32], [2, 4, 6]);
    let all = attempts(&history.total(window));
    assert_eq!((all.iter().sum::<u32>(), all[59]), (17, 5));
    // What lies after the start is read in fine steps, as before.
    assert_eq!(history.window(START + MINUTE, MINUTE, 60, true).step_ms, SECOND);
    // The current minute, and what is too old or in the future.
    let mut news = OwnSteps::default();
    news.add(START, &[(name(3), acked(1))], &Sample::default());
    let news = PublishedHistory::read(&news.publication(counted).unwrap().set);
    history.add_past(START, &news);
    assert_eq!(attempts(&history.total(window))[59], 6);
    let later = START + 50 * 60 * MINUTE;
    history.add_past(later, &news);
    let window = history.window(later, 48 * 60 * MINUTE, 720, true);
    assert!(attempts(&history.total(window)).iter().all(|attempts| *attempts == 0));
}

#[test]
fn nothing_happening_costs_nothing_and_names_are_freed() {
    let history = History::new(START);
    for number in 0..TOPICS_MAX + 5 {
        history.add(START, &[(name(number), acked(1))], &Sample::default());
    }
    assert_eq!(history.state.lock().ids.len(), TOPICS_MAX);
    // Two days later none of them has steps.
    let later = START + 49 * 60 * MINUTE;
    for minute in 0..3 {
        history.add(later + minute * MINUTE, &[(name(9_999), acked(1))], &Sample::default());
    }
    let window = history.window(later + 2 * MINUTE, 600 * SECOND, 600, true);
    let seen = history.sum(window, |topic| *topic == name(9_999));
    assert_eq!(attempts(&seen).iter().sum::<u32>(), 3);
    assert_eq!(history.state.lock().ids.len(), 1);
    assert!(history.bytes() < 200 << 10, "{} bytes", history.bytes());
}

#[test]
fn waiting_jobs_of_topics_add_up_and_time_never_goes_back() {
    let history = History::new(START);
    let waiting = |waiting| Sample { waiting, ..Sample::default() };
    let counted = Sample { waiting: 7, is_counted: true, ..Sample::default() };
    history.add(START, &[(name(1), waiting(3)), (name(2), waiting(4))], &counted);
    history.add(START - MINUTE, &[(name(1), acked(1))], &Sample::default());
    let window = history.window(START, 10 * SECOND, 10, true);
    let sum = history.sum(window, |_| true);
    assert_eq!((sum[9].waiting, sum[9].is_counted, sum[9].tally.attempts()), (7, true, 1));
    assert_eq!(history.total(window)[9].waiting, 7);
    assert!(sum[8].is_empty());
}
