//! What a job of the campaign does. The id names it, so that the witness server needs no memory of pushes.

use std::time::Duration;

use fastrand::Rng;

/// Jobs of handlers: retries, follow-ups, drops, slow ones.
pub(crate) const WORK: &str = "work";
/// Follow-up jobs.
pub(crate) const CHILDREN: &str = "children";
/// Jobs with keys, one at a time for each key.
pub(crate) const KEYED: &str = "keyed";
/// Jobs of pull consumers.
pub(crate) const PULLED: &str = "pulled";
/// One job each second, by a schedule.
pub(crate) const TICKS: &str = "ticks";
/// The interval of the schedule.
pub(crate) const TICK_MS: i64 = 1_000;
/// All topics of the campaign's manifest.
pub(crate) const TOPICS: [&str; 5] = [WORK, CHILDREN, KEYED, PULLED, TICKS];

/// The course of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    Ack,
    /// Acks after some hundred ms.
    Slow,
    /// Nacks so many times, then acks.
    Nack(u32),
    Drop,
    /// Acks with a follow-up job.
    Follow,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ack,
    Nack,
    Drop,
}

impl Plan {
    /// The plan that an id names; an id of another origin acks.
    pub(crate) fn of(id: &str) -> Self {
        match id.split('.').next().unwrap_or_default() {
            "slow" => Self::Slow,
            "drop" => Self::Drop,
            "follow" => Self::Follow,
            word => match word.strip_prefix("nack").and_then(|count| count.parse().ok()) {
                Some(count) => Self::Nack(count),
                None => Self::Ack,
            },
        }
    }

    /// The word of a random plan, which begins an id.
    pub(crate) fn draw(rng: &mut Rng) -> &'static str {
        match rng.u32(..100) {
            0..10 => "slow",
            10..20 => "nack1",
            20..25 => "nack2",
            25..28 => "drop",
            28..40 => "follow",
            _ => "ack",
        }
    }

    /// How long a run takes.
    pub(crate) fn duration(self) -> Duration {
        match self {
            Self::Slow => Duration::from_millis(fastrand::u64(200..600)),
            _ => Duration::from_millis(fastrand::u64(..15)),
        }
    }

    /// The verdict of this attempt, the first one being 1.
    pub(crate) fn verdict(self, attempt: u32) -> Verdict {
        match self {
            Self::Nack(count) if attempt <= count => Verdict::Nack,
            Self::Drop => Verdict::Drop,
            _ => Verdict::Ack,
        }
    }

    /// The number of attempts that the job takes.
    pub(crate) fn attempts(self) -> u32 {
        if let Self::Nack(count) = self { count + 1 } else { 1 }
    }
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Drop => "drop",
        }
    }
}

/// The id of a job's follow-up.
pub(crate) fn child_of(id: &str) -> String {
    format!("child.{id}")
}

/// The key of a job of [`KEYED`]: the first word of its id.
pub(crate) fn key_of<'i>(topic: &str, id: &'i str) -> Option<&'i str> {
    (topic == KEYED).then(|| id.split('.').next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_plan() {
        assert_eq!(Plan::of("nack2.1-7"), Plan::Nack(2));
        assert_eq!(Plan::of("nack2.1-7").verdict(2), Verdict::Nack);
        assert_eq!(Plan::of("nack2.1-7").verdict(3), Verdict::Ack);
        assert_eq!(Plan::of("child.follow.1-7"), Plan::Ack);
        assert_eq!(Plan::of("every@1763742600000"), Plan::Ack);
        assert_eq!(key_of(KEYED, "key3.1-7"), Some("key3"));
    }
}
