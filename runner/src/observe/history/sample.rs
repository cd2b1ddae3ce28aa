//! What one step of the history holds, and its compact form: pairs of an index and a value, as variable-length
//! numbers. A step in which a topic had three attempts takes about 12 bytes.

use crate::observe::tally::{COUNTS, Tally};

/// Indices of values that are not counts; they stand behind the counts of a tally, and stay where they are when those
/// become more: daemons of other versions read them.
const WAITING: usize = 120;
const _: () = assert!(COUNTS <= WAITING);
const OVERDUE: usize = WAITING + 1;
const REDIS: usize = WAITING + 2;
const AWAY: usize = WAITING + 3;
const COUNTED: usize = WAITING + 4;

/// What happened in a span of time. Of values that are not counts it has the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// The attempts.
    pub tally: Tally,
    /// Jobs that wait: ready, blocked, in retry or not yet due.
    pub waiting: u32,
    /// How long the oldest ready job had been due, in ms.
    pub overdue_ms: u32,
    /// The longest round trip to Redis, in µs; 0 if there was none.
    pub redis_us: u32,
    /// True if Redis did not answer.
    pub is_away: bool,
    /// True if waiting jobs were counted.
    pub is_counted: bool,
}

impl Sample {
    /// A sample with attempts only.
    pub fn of(tally: Tally) -> Self {
        Self { tally, ..Self::default() }
    }

    /// Adds another sample of the same step.
    pub fn merge(&mut self, other: &Self) {
        self.tally.merge(&other.tally);
        self.waiting = self.waiting.max(other.waiting);
        self.overdue_ms = self.overdue_ms.max(other.overdue_ms);
        self.redis_us = self.redis_us.max(other.redis_us);
        self.is_away |= other.is_away;
        self.is_counted |= other.is_counted;
    }

    /// True if there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if no job ran or waited, and Redis answered.
    pub(super) fn is_idle(&self) -> bool {
        let Self { redis_us, is_counted, .. } = *self;
        *self == Self { redis_us, is_counted, ..Self::default() }
    }

    /// Appends the compact form.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let others = [
            (WAITING, self.waiting),
            (OVERDUE, self.overdue_ms),
            (REDIS, self.redis_us),
            (AWAY, u32::from(self.is_away)),
            (COUNTED, u32::from(self.is_counted)),
        ];
        let pairs = || self.tally.pairs().chain(others.into_iter().filter(|(_, value)| *value > 0));
        write_number(to, pairs().count() as u32);
        for (index, value) in pairs() {
            write_number(to, index as u32);
            write_number(to, value);
        }
    }

    /// Reads the compact form, and moves `from` behind it.
    pub(super) fn read(from: &mut &[u8]) -> Self {
        let mut sample = Self::default();
        for _ in 0..read_number(from) {
            if from.is_empty() {
                break;
            }
            let (index, value) = (read_number(from) as usize, read_number(from));
            match index {
                WAITING => sample.waiting = value,
                OVERDUE => sample.overdue_ms = value,
                REDIS => sample.redis_us = value,
                AWAY => sample.is_away = value > 0,
                COUNTED => sample.is_counted = value > 0,
                _ => sample.tally.add(index, value),
            }
        }
        sample
    }
}

/// Seven bits a byte, the lowest first.
pub(super) fn write_number(to: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads a number, and moves `from` behind it; 0 at the end.
pub(super) fn read_number(from: &mut &[u8]) -> u32 {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let Some((byte, rest)) = from.split_first() else { break };
        *from = rest;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_reads_back_and_a_small_one_is_small() {
        let mut tally = Tally::default();
        for (index, count) in [(0, 3), (5, 2), (20, 1), (COUNTS - 1, u32::MAX)] {
            tally.add(index, count);
        }
        let full = Sample {
            tally,
            waiting: 300,
            overdue_ms: u32::MAX,
            redis_us: 1,
            is_away: true,
            is_counted: true,
        };
        let (mut bytes, mut small) = (Vec::new(), Vec::new());
        full.write(&mut bytes);
        bytes.push(9);
        let mut rest = &bytes[..];
        assert_eq!((Sample::read(&mut rest), rest), (full, &[9][..]));
        let mut tally = Tally::default();
        for index in [0, 5, 25] {
            tally.add(index, 1);
        }
        Sample::of(tally).write(&mut small);
        assert_eq!(small.len(), 7);
        // A text that ends too early is read as far as it goes.
        assert!(Sample::read(&mut &[][..]).is_empty());
    }
}
