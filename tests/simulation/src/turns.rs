//! Which turns of workers are under way, as their connections see it: how often verdicts and leases of one topic
//! are under way at once.

use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Arg, Pipeline};

/// A call that settles or leases. One that does both is a turn alone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    link: u64,
    topic: Vec<u8>,
    leases: bool,
}

/// The calls under way. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    under_way: Vec<Call>,
    together: u64,
}

/// A call under way, until it is dropped.
pub(crate) struct UnderWay {
    turns: Turns,
    call: Call,
}

impl Turns {
    /// A call begins; none if it is no turn.
    pub(crate) fn begin(&self, link: u64, commands: &Pipeline) -> Option<UnderWay> {
        let call = Call::of(link, commands)?;
        let mut seen = self.0.lock();
        let is_other = |other: &Call| {
            other.link == link && other.topic == call.topic && other.leases != call.leases
        };
        seen.together += u64::from(seen.under_way.iter().any(is_other));
        seen.under_way.push(call.clone());
        Some(UnderWay { turns: self.clone(), call })
    }

    /// How often a turn began while another one of its topic was under way, of the other kind.
    pub(crate) fn together(&self) -> u64 {
        self.0.lock().together
    }
}

impl Call {
    /// The names of verdicts, and a lease call's id (`d-NUMBER:NUMBER`), tell what a call does.
    fn of(link: u64, commands: &Pipeline) -> Option<Self> {
        let (mut settles, mut leases, mut topic) = (false, false, Vec::new());
        for word in commands.cmd_iter().flat_map(redis::Cmd::args_iter) {
            let Arg::Simple(word) = word else { continue };
            settles |=
                matches!(word, b"ack" | b"nack" | b"finish" | b"snooze" | b"drop" | b"release");
            leases |= word.starts_with(b"d-") && word.contains(&b':');
            if topic.is_empty()
                && let (Some(open), Some(close)) = (
                    word.iter().position(|byte| *byte == b'{'),
                    word.iter().position(|byte| *byte == b'}'),
                )
            {
                topic = word[open..close].to_vec();
            }
        }
        (settles != leases).then_some(Self { link, topic, leases })
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
