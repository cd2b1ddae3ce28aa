//! One call to a cluster: its commands by their servers, and what their replies mean.

use redis::{Cmd, Pipeline, ServerErrorKind, Value};

use crate::error::QueueError;
use crate::wire::address::NodeAddress;
use crate::wire::node_addresses::NodeAddresses;
use crate::wire::server_connection::{RawReplies, Repeat, SendFailure};
use crate::wire::slots::node_of;

/// The commands of one call, and what is known of them.
pub(super) struct Call<'c> {
    pub(super) all: Vec<&'c Cmd>,
    pub(super) values: Vec<Option<Value>>,
    repeat: Repeat,
    addresses: &'c NodeAddresses,
    pub(super) is_repeated: bool,
    /// What the writes lack of the copies that were waited for.
    pub(super) missing: Option<String>,
}

/// The work that remains after the replies of the servers.
#[derive(Default)]
pub(super) struct Left {
    /// Commands that are sent again.
    pub(super) again: Vec<usize>,
    /// Commands for servers to which their slots are about to move.
    pub(super) asked: Vec<Part>,
    /// Slots that have moved.
    pub(super) moved: Vec<(u16, NodeAddress)>,
    /// Some command could not be carried out by any server.
    pub(super) waits: bool,
}

impl<'c> Call<'c> {
    pub(super) fn new(
        commands: &'c Pipeline,
        repeat: Repeat,
        addresses: &'c NodeAddresses,
    ) -> Self {
        let all: Vec<&Cmd> = commands.cmd_iter().collect();
        let values = vec![None; all.len()];
        Self { values, all, repeat, addresses, is_repeated: false, missing: None }
    }

    /// Takes the replies to one part. A late call takes them as they are.
    pub(super) fn take(
        &mut self,
        part: Part,
        replies: Result<RawReplies, SendFailure>,
        is_late: bool,
        left: &mut Left,
    ) -> Result<(), QueueError> {
        let replies = match replies {
            Ok(replies) => replies,
            Err(SendFailure { error, is_unsent }) => {
                if is_late || (!is_unsent && self.repeat == Repeat::Unsent) {
                    return Err(error);
                }
                self.is_repeated |= !is_unsent;
                left.waits = true;
                left.again.extend(part.commands);
                return Ok(());
            }
        };
        self.is_repeated |= replies.is_repeated;
        self.missing = self.missing.take().or(replies.missing);
        for (index, value) in part.commands.into_iter().zip(replies.values) {
            match next(value, &part.node, self.addresses, is_late) {
                Next::Done(value) => self.values[index] = Some(value),
                Next::Ask(node) => add(&mut left.asked, node, true, index),
                Next::Moved(slot, node) => {
                    left.moved.push((slot, node));
                    left.again.push(index);
                }
                Next::Wait => {
                    left.waits = true;
                    left.again.push(index);
                }
            }
        }
        Ok(())
    }
}

/// What is to be done with a command after a reply.
enum Next {
    Done(Value),
    /// Its slot is at this server.
    Moved(u16, NodeAddress),
    /// Its slot is about to move to this server, which has the key already.
    Ask(NodeAddress),
    /// No server can carry it out at the moment.
    Wait,
}

/// A part of a call: commands for one server, by their indices in the call.
pub(super) struct Part {
    pub(super) node: NodeAddress,
    /// Each command is sent after ASKING.
    pub(super) asks: bool,
    pub(super) commands: Vec<usize>,
}

/// What a reply means. In a late call every reply is the last one.
fn next(value: Value, from: &NodeAddress, addresses: &NodeAddresses, is_late: bool) -> Next {
    let Value::ServerError(error) = &value else { return Next::Done(value) };
    if is_late {
        return Next::Done(value);
    }
    let named = || {
        let mut words = error.details()?.split_ascii_whitespace();
        let slot: u16 = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        Some((slot, node_of(host, port.parse().ok()?, from, addresses)?))
    };
    match error.kind() {
        Some(ServerErrorKind::Moved) => match named() {
            Some((slot, node)) => Next::Moved(slot, node),
            None => Next::Done(value),
        },
        Some(ServerErrorKind::Ask) => match named() {
            Some((_, node)) => Next::Ask(node),
            None => Next::Done(value),
        },
        Some(
            ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::ReadOnly,
        ) => Next::Wait,
        _ => Next::Done(value),
    }
}

/// Adds a command to the part of its server.
pub(super) fn add(parts: &mut Vec<Part>, node: NodeAddress, asks: bool, index: usize) {
    match parts.iter_mut().find(|part| part.node == node && part.asks == asks) {
        Some(part) => part.commands.push(index),
        None => parts.push(Part { node, asks, commands: vec![index] }),
    }
}
