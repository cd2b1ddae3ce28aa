//! Which turns of workers are under way, as their connections see it. Two turns of one topic under way at once have no
//! part in common, and neither renews leases.

use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Arg, Pipeline};

use crate::redis::leases::is_verdict;

/// A turn: what it does for a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Call {
    link: u64,
    topic: Vec<u8>,
    renews: bool,
    settles: bool,
    leases: bool,
}

/// The turns under way. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    under_way: Vec<Call>,
    together: u64,
    in_conflict: u64,
}

/// A turn under way, until it is dropped.
pub(crate) struct UnderWay {
    turns: Turns,
    call: Call,
}

impl Turns {
    /// A call begins; none if it is no turn.
    pub(crate) fn begin(&self, link: u64, commands: &Pipeline) -> Option<UnderWay> {
        let call = Call::of(link, commands)?;
        let mut seen = self.0.lock();
        let is_of_same = |other: &&Call| other.link == link && other.topic == call.topic;
        let others: Vec<Call> = seen.under_way.iter().filter(is_of_same).cloned().collect();
        seen.together += u64::from(!others.is_empty());
        seen.in_conflict += u64::from(others.iter().any(|other| call.conflicts_with(other)));
        seen.under_way.push(call.clone());
        Some(UnderWay { turns: self.clone(), call })
    }

    /// How often a turn began while another one of its topic was under way.
    pub(crate) fn together(&self) -> u64 {
        self.0.lock().together
    }

    /// How often such a turn had a part of the other one, or one of them renewed leases.
    pub(crate) fn in_conflict(&self) -> u64 {
        self.0.lock().in_conflict
    }
}

impl Call {
    /// The names of verdicts, a lease call's id (`d-NUMBER:NUMBER`) and the holder of a renewal (`d-NUMBER`) tell what a
    /// call does.
    fn of(link: u64, commands: &Pipeline) -> Option<Self> {
        let mut call = Self { link, ..Self::default() };
        for word in commands.cmd_iter().flat_map(redis::Cmd::args_iter) {
            let Arg::Simple(word) = word else { continue };
            call.settles |= is_verdict(word);
            if word.starts_with(b"d-") {
                let is_call_id = word.contains(&b':');
                call.leases |= is_call_id;
                call.renews |= !is_call_id;
            }
            if call.topic.is_empty()
                && let Some(key) = word.strip_prefix(b"duebox:{")
            {
                call.topic = key.iter().copied().take_while(|byte| *byte != b'}').collect();
            }
        }
        (call.renews || call.settles || call.leases).then_some(call)
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        let renews = self.renews || other.renews;
        renews || (self.settles && other.settles) || (self.leases && other.leases)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut seen = self.turns.0.lock();
        if let Some(at) = seen.under_way.iter().position(|call| *call == self.call) {
            seen.under_way.swap_remove(at);
        }
    }
}
