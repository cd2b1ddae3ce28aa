//! Extends leases: each gets a new token, which expires later.

use std::time::Duration;

use duebox_job::JobId;
use redis::{Cmd, Value};

use crate::error::QueueError;
use crate::wire::keys::ShardKeys;
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes};
use crate::wire::script::EXTEND;
use crate::work::lease::Token;

/// A lease to extend.
#[derive(Debug, Clone)]
pub struct Extension {
    /// The job's id.
    pub id: JobId,
    /// The current token of the lease.
    pub token: Token,
    /// How much later it expires, 1 ms to one day.
    pub by: Duration,
}

impl Extension {
    pub(super) fn command(keys: &ShardKeys, holder: &str, extensions: &[&Self]) -> Cmd {
        let mut call = EXTEND.call(keys);
        call.arg(holder);
        for Self { id, token, by } in extensions {
            call.arg(id.as_bytes()).arg(token.as_bytes()).arg(millis(*by).max(1));
        }
        call
    }

    /// The new token of each lease; `None` for a lost one.
    pub(super) fn read(reply: Value) -> Result<Vec<Option<Token>>, QueueError> {
        let read = |value| {
            let token = bytes(value)?;
            Ok(if token.as_ref() == b"lost" { None } else { Some(Token::new(token)) })
        };
        array(reply)?.into_iter().map(read).collect()
    }
}
