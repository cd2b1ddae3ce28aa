//! The history of an entry's modules: the last deployments, refusals and rollbacks, for status and metrics.

use std::collections::VecDeque;
use std::sync::Arc;

use duebox_sandbox::Digest;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// Events in a history.
const EVENTS_MAX: usize = 16;
/// The longest reason, in bytes.
const REASON_MAX: usize = 1 << 10;

/// The role of a module for a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It is the handler.
    Handler,
    /// It is the canary.
    Canary,
}

impl Role {
    /// Its word in JSON and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Canary => "canary",
        }
    }
}

/// What happened to a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleChange {
    /// It serves from then on.
    Served,
    /// It was refused; an earlier module keeps serving, if there is one.
    Refused,
    /// It failed too often; the previous module serves again.
    RolledBack,
    /// An operator rolled it back; the previous module serves again.
    RolledBackByHand,
    /// The manifest no longer contains it.
    Left,
}

impl ModuleChange {
    /// Every fate.
    pub const ALL: [Self; 5] =
        [Self::Served, Self::Refused, Self::RolledBack, Self::RolledBackByHand, Self::Left];

    /// Its word in JSON and in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Refused => "refused",
            Self::RolledBack => "rolled_back",
            Self::RolledBackByHand => "rolled_back_by_hand",
            Self::Left => "left",
        }
    }

    /// Its text for output to people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Served => "serves",
            Self::Refused => "refused",
            Self::RolledBack => "rolled back",
            Self::RolledBackByHand => "rolled back by hand",
            Self::Left => "left",
        }
    }

    /// True if the requested module therefore does not serve.
    pub fn is_trouble(self) -> bool {
        match self {
            Self::Served | Self::Left => false,
            Self::Refused | Self::RolledBack | Self::RolledBackByHand => true,
        }
    }
}

/// One event of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleEvent {
    /// When, in unix milliseconds of the local clock.
    pub at_ms: u64,
    /// The role of the module.
    pub role: Role,
    /// What happened to it.
    pub fate: ModuleChange,
    /// The digest of the module, 64 hex digits; none if the file was not read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// The reason, for people; may be empty. At most 1 KiB.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
}

/// The last events of an entry. Clones share the same history.
#[derive(Clone, Default)]
pub struct ModuleHistory(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    events: VecDeque<ModuleEvent>,
    /// All events so far by their fate, including dropped ones.
    counts: [u64; ModuleChange::ALL.len()],
}

impl ModuleHistory {
    /// Records an event of now, and drops the oldest of more than 16.
    pub fn note(&self, role: Role, fate: ModuleChange, digest: Option<&Digest>, reason: &str) {
        let at_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let digest = digest.map(Digest::to_string);
        let reason = reason[..reason.floor_char_boundary(REASON_MAX)].to_owned();
        let mut notes = self.notes();
        if notes.events.len() == EVENTS_MAX {
            notes.events.pop_front();
        }
        notes.events.push_back(ModuleEvent { at_ms, role, fate, digest, reason });
        notes.counts[fate as usize] += 1;
    }

    /// Records that a module serves again, if the last event of the role is a failure.
    pub fn note_recovered(&self, role: Role, digest: &Digest) {
        if last_of(&self.events(), role).is_some_and(|event| event.fate.is_trouble()) {
            self.note(role, ModuleChange::Served, Some(digest), "");
        }
    }

    /// The events, oldest first.
    pub fn events(&self) -> Vec<ModuleEvent> {
        self.notes().events.iter().cloned().collect()
    }

    /// The number of events since the start, which changes with each event.
    pub fn count(&self) -> u64 {
        self.notes().counts.iter().sum()
    }

    /// The number of events of a fate since the start.
    pub fn count_of(&self, fate: ModuleChange) -> u64 {
        self.notes().counts[fate as usize]
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock()
    }
}

/// The last event of a role.
pub fn last_of(events: &[ModuleEvent], role: Role) -> Option<&ModuleEvent> {
    events.iter().rev().find(|event| event.role == role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_read_back_from_json() {
        let history = ModuleHistory::default();
        for number in 0..20 {
            history.clone().note(
                Role::Handler,
                ModuleChange::Served,
                Some(&Digest::of(&[number])),
                "",
            );
        }
        history.note(Role::Canary, ModuleChange::Refused, None, &"ä".repeat(1_000));
        let events = history.events();
        assert_eq!((history.count(), history.count_of(ModuleChange::Served)), (21, 20));
        for fate in ModuleChange::ALL {
            let word = format!("\"{}\"", fate.word());
            assert_eq!(serde_json::to_string(&fate).unwrap(), word);
        }
        let oldest = Digest::of(&[5]).to_string();
        assert_eq!((events.len(), events[0].digest.as_ref()), (16, Some(&oldest)));
        assert_eq!((events[15].reason.len(), events[15].role), (1_024, Role::Canary));
        let json = serde_json::to_string(&events).unwrap();
        assert_eq!(serde_json::from_str::<Vec<ModuleEvent>>(&json).unwrap(), events);
        let shown = format!(r#""role":"handler","fate":"served","digest":"{oldest}"}}"#);
        assert!(json.contains(&shown), "{json}");
    }

    #[test]
    fn recovery_is_recorded_once_and_only_for_the_failed_role() {
        let (history, digest) = (ModuleHistory::default(), Digest::of(b"a"));
        history.note(Role::Handler, ModuleChange::Refused, None, "broken");
        history.note_recovered(Role::Canary, &digest);
        assert_eq!(history.count(), 1);
        history.note_recovered(Role::Handler, &digest);
        history.note_recovered(Role::Handler, &digest);
        let events = history.events();
        assert_eq!((history.count(), events[1].fate), (2, ModuleChange::Served));
        assert_eq!(last_of(&events, Role::Handler), Some(&events[1]));
        assert_eq!(last_of(&events, Role::Canary), None);
    }
}
