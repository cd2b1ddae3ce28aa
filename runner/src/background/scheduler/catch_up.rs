//! Decides which ticks of a schedule are pushed, and which are skipped.
//!
//! Pure: the time is an argument. Every tick of the span is either pushed or counted as skipped. The work
//! of one call is bounded, however long no scheduler ran.

use duebox_queue::BATCH_MAX;

use crate::millis::millis;
use crate::schedule::{Missed, Schedule, When};

/// A tick younger than this is on time, in ms, so that a short restart or outage misses nothing.
pub(super) const ON_TIME_MS: u64 = 10_000;

/// The largest count of skipped ticks.
pub(super) const COUNT_MAX: usize = 10_000;

/// The due ticks of a schedule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CatchUp {
    /// The ticks to push, earliest first; at most [`BATCH_MAX`].
    pub(super) ticks: Vec<u64>,
    /// How many of them are late: older than [`ON_TIME_MS`].
    pub(super) late: usize,
    /// How many ticks are skipped; [`COUNT_MAX`] stands for that many or more.
    pub(super) skipped: usize,
}

/// The due ticks at `now_ms` of a schedule whose ticks are handled up to `after_ms`.
pub(super) fn catch_up(schedule: &Schedule, missed: Missed, after_ms: u64, now_ms: u64) -> CatchUp {
    let when = &schedule.when;
    let on_time_from = now_ms.saturating_sub(ON_TIME_MS).max(after_ms);
    let on_time = when.ticks_between(on_time_from, now_ms, BATCH_MAX);
    if on_time_from <= after_ms {
        return CatchUp { ticks: on_time, ..CatchUp::default() };
    }
    let window_ms = millis(schedule.window);
    // A tick exactly as old as the window is within it.
    let window_from = now_ms.saturating_sub(window_ms).saturating_sub(1).max(after_ms);
    let mut ticks = match missed {
        Missed::Skip => Vec::new(),
        // A tick on time makes up for the missed ones.
        Missed::Once if !on_time.is_empty() => Vec::new(),
        Missed::Once => last_tick(when, window_from, on_time_from).into_iter().collect(),
        Missed::All => {
            when.ticks_between(window_from, on_time_from, BATCH_MAX.saturating_sub(on_time.len()))
        }
    };
    let late = ticks.len();
    let missed = when.ticks_between(after_ms, on_time_from, COUNT_MAX).len();
    ticks.extend(on_time);
    CatchUp { ticks, late, skipped: missed.saturating_sub(late) }
}

/// The last tick after `after_ms`, up to and including `until_ms`.
fn last_tick(when: &When, after_ms: u64, until_ms: u64) -> Option<u64> {
    let is_within = |from_ms: u64| when.next_after(from_ms).filter(|tick| *tick <= until_ms);
    let mut found = is_within(after_ms)?;
    // A later tick may follow `found`; none follows `beyond`.
    let mut beyond = until_ms;
    while found < beyond {
        let middle = found + (beyond - found) / 2;
        match is_within(middle) {
            Some(later) => found = later,
            None => beyond = middle,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use duebox_job::TopicName;
    use proptest::prelude::*;

    use super::*;

    /// Half past a minute, so that ticks of whole minutes are not on time.
    const NOW: u64 = 1_763_740_830_000;
    const MINUTE: u64 = 60_000;

    fn schedule(when: When, window_ms: u64) -> Schedule {
        Schedule {
            name: "x".to_owned(),
            topic: TopicName::new("x").unwrap(),
            when,
            payload: Bytes::new(),
            missed: Missed::Skip,
            window: Duration::from_millis(window_ms),
        }
    }

    fn every(seconds: u64) -> When {
        When::every(Duration::from_secs(seconds)).unwrap()
    }

    /// The due ticks of a minutely schedule after so long without a scheduler.
    fn after(missed: Missed, window_ms: u64, alone_ms: u64) -> CatchUp {
        catch_up(&schedule(every(60), window_ms), missed, NOW - alone_ms, NOW)
    }

    fn ticks(minutes_before: &[u64]) -> Vec<u64> {
        minutes_before.iter().map(|minutes| NOW - 30_000 - minutes * MINUTE).collect()
    }

    #[test]
    fn skip_pushes_no_missed_tick() {
        let due = after(Missed::Skip, 60 * MINUTE, 5 * MINUTE);
        assert_eq!(due, CatchUp { ticks: vec![], late: 0, skipped: 5 });
    }

    #[test]
    fn once_pushes_the_last_within_the_window() {
        let due = after(Missed::Once, 60 * MINUTE, 5 * MINUTE);
        assert_eq!(due, CatchUp { ticks: ticks(&[0]), late: 1, skipped: 4 });
        let due = after(Missed::Once, 30_000, 5 * MINUTE);
        assert_eq!(due, CatchUp { ticks: ticks(&[0]), late: 1, skipped: 4 });
        let due = after(Missed::Once, 29_999, 5 * MINUTE);
        assert_eq!(due, CatchUp { ticks: vec![], late: 0, skipped: 5 });
    }

    #[test]
    fn all_pushes_each_within_the_window_oldest_first() {
        let due = after(Missed::All, 60 * MINUTE, 3 * MINUTE);
        assert_eq!(due, CatchUp { ticks: ticks(&[2, 1, 0]), late: 3, skipped: 0 });
        let due = after(Missed::All, MINUTE + 30_000, 3 * MINUTE);
        assert_eq!(due, CatchUp { ticks: ticks(&[1, 0]), late: 2, skipped: 1 });
        assert_eq!(after(Missed::All, 0, 3 * MINUTE).skipped, 3);
    }

    #[test]
    fn ticks_on_time_are_pushed_under_every_policy() {
        for missed in [Missed::Skip, Missed::Once, Missed::All] {
            let due = catch_up(&schedule(every(5), 0), missed, NOW - 7_000, NOW);
            let on_time = vec![NOW - 5_000, NOW];
            assert_eq!(due, CatchUp { ticks: on_time, late: 0, skipped: 0 }, "{missed:?}");
        }
        // A tick on time makes up for the missed ones.
        let due = catch_up(&schedule(every(5), 60_000), Missed::Once, NOW - 21_000, NOW);
        assert_eq!(due, CatchUp { ticks: vec![NOW - 5_000, NOW], late: 0, skipped: 3 });
    }

    #[test]
    fn a_long_absence_is_bounded_and_counted() {
        let year = 365 * 86_400_000;
        let due = catch_up(&schedule(every(1), year), Missed::All, NOW - year, NOW);
        assert_eq!((due.ticks.len(), due.late), (BATCH_MAX, BATCH_MAX - 10));
        assert!(due.ticks.is_sorted() && due.ticks.last() == Some(&NOW));
        assert_eq!(due.skipped, COUNT_MAX - due.late);
        let nightly = When::cron("0 3 * * *", "Asia/Shanghai").unwrap();
        let due = catch_up(&schedule(nightly, year), Missed::Once, NOW - year, NOW);
        // 2025-11-21 03:00 in Shanghai.
        assert_eq!(due, CatchUp { ticks: vec![1_763_665_200_000], late: 1, skipped: 364 });
    }

    #[test]
    fn nothing_is_due_before_the_handled_time() {
        for after_ms in [NOW, NOW + 1, NOW + MINUTE] {
            let due = catch_up(&schedule(every(1), MINUTE), Missed::All, after_ms, NOW);
            assert_eq!(due, CatchUp::default());
        }
    }

    proptest! {
        #[test]
        fn the_last_tick_is_the_one_that_counting_finds(
            span in 0u64..40_000_000, line in prop::sample::select(vec![
                "*/7 * * * *", "30 2 * * *", "*/20 8 * * mon", "0 0 1 1 *", "*/5 * 3 * * *",
            ]),
        ) {
            // Around the end of summer time in Berlin.
            let until = 1_792_900_800_000;
            let when = When::cron(line, "Europe/Berlin").unwrap();
            let counted = when.ticks_between(until - span, until, usize::MAX).last().copied();
            prop_assert_eq!(last_tick(&when, until - span, until), counted);
        }

        #[test]
        fn every_tick_is_pushed_or_counted(
            alone in 0u64..4_000_000, window in 0u64..4_000_000, seconds in 10u64..600,
            missed in prop::sample::select(vec![Missed::Skip, Missed::Once, Missed::All]),
        ) {
            let schedule = schedule(every(seconds), window);
            let due = catch_up(&schedule, missed, NOW - alone, NOW);
            let all = schedule.when.ticks_between(NOW - alone, NOW, usize::MAX);
            prop_assert_eq!(due.ticks.len() + due.skipped, all.len());
            prop_assert!(due.ticks.iter().all(|tick| all.contains(tick)));
            prop_assert!(due.ticks.is_sorted_by(|a, b| a < b));
        }
    }
}
