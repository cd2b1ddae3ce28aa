//! The test host's side of a push: parses the follow-up from its head or refuses it, by the rules
//! of `docs/reference/abi.md`, so that a test refuses what the daemon refuses.

use std::time::Duration;

use crate::abi::code::{DENIED, INVALID, TOO_LARGE};
use crate::{FollowUp, Priority};

const COUNT_MAX: usize = 100;
const BYTES_MAX: usize = 4 << 20;
const HEAD_MAX: usize = 16 << 10;
const DELAY_MAX_MS: u64 = 10 * 365 * 86_400_000;
const ATTEMPTS_MAX: u64 = 999_999;

/// The follow-ups of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Pushes {
    /// Topics, or prefixes followed by `*`, that may be pushed to; all if empty.
    pub(super) allowed: Vec<String>,
    pub(super) taken: Vec<FollowUp>,
    bytes: usize,
}

impl Pushes {
    /// Accepts a push; returns 0 or an error code of the ABI.
    pub(super) fn push(&mut self, head: &str, body: &[u8]) -> i32 {
        if head.len() > HEAD_MAX {
            return TOO_LARGE;
        }
        let Some(follow_up) = read(head, body) else { return INVALID };
        if !self.allowed.is_empty() && !self.allowed.iter().any(|to| covers(to, &follow_up.topic)) {
            return DENIED;
        }
        let bytes = self.bytes + head.len() + body.len();
        if self.taken.len() == COUNT_MAX || bytes > BYTES_MAX {
            return TOO_LARGE;
        }
        self.bytes = bytes;
        self.taken.push(follow_up);
        0
    }
}

fn covers(pattern: &str, topic: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => topic.starts_with(prefix),
        None => topic == pattern,
    }
}

/// The SDK writes each line once and with a known name, so only the ranges are checked.
fn read(head: &str, body: &[u8]) -> Option<FollowUp> {
    let mut follow_up = FollowUp::new("").payload(body);
    for line in head.lines() {
        let (name, value) = line.split_once(": ")?;
        follow_up = match name {
            "topic" => FollowUp { topic: topic(value)?, ..follow_up },
            "id" => follow_up.id(id(value)?),
            "delay-ms" => follow_up.delay(Duration::from_millis(number(value, 0, DELAY_MAX_MS)?)),
            "due-at-ms" => {
                follow_up.due_at_ms(number(value, 100_000_000_000, 100_000_000_000_000)?)
            }
            "ttr-ms" => follow_up.ttr(Duration::from_millis(number(value, 1, DELAY_MAX_MS)?)),
            "ttl-ms" => follow_up.ttl(Duration::from_millis(number(value, 0, DELAY_MAX_MS)?)),
            "max-attempts" => {
                follow_up.max_attempts(u32::try_from(number(value, 1, ATTEMPTS_MAX)?).ok()?)
            }
            "priority" if value == "high" => follow_up.priority(Priority::High),
            "priority" => follow_up.priority(Priority::Low),
            "key" => follow_up.key(bounded(value, 256)?),
            header => follow_up.header(bounded(header.strip_prefix("h.")?, 62)?, value),
        };
    }
    Some(follow_up)
}

fn topic(value: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    bounded(value, 128).filter(|topic| topic.chars().all(allowed)).map(str::to_owned)
}

fn id(value: &str) -> Option<&str> {
    bounded(value, 256).filter(|id| id.chars().all(|c| c.is_ascii_graphic()))
}

fn bounded(value: &str, max: usize) -> Option<&str> {
    (1..=max).contains(&value.len()).then_some(value)
}

fn number(value: &str, least: u64, most: u64) -> Option<u64> {
    value.parse().ok().filter(|number| (least..=most).contains(number))
}
