//! Settles and extends a lease by its id and token as text. A stale token replies `lost` and changes
//! nothing.

use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, OptionError, Options, Shard, TopicName};
use redis::Value;

use super::PullOptionsError;
use super::options::check_consumer;
use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::attempts::Attempts;
use crate::wire::reply::{bytes, score, text};
use crate::wire::script;
use crate::work::extend::Extension;
use crate::work::lease::{Lease, Token};
use crate::work::settle::{Settled, Verdict};
use crate::work::turn::Turn;

/// The largest token: an integer that a double holds exactly.
const TOKEN_MAX: u64 = 1 << 53;

/// A text that is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a lease token; it is the number that came with the job")]
pub struct TokenError(String);

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let token = text.parse::<u64>().ok().filter(|token| is_number && *token <= TOKEN_MAX);
        token.map(Self::expiring_at_us).ok_or_else(|| TokenError(text.to_owned()))
    }
}

/// What must be known of a leased job to judge it: its options, and how often it was tried.
#[derive(Debug, Clone)]
pub struct LeasedJob {
    /// The token of its lease.
    pub token: Token,
    /// Its own options, or why they are invalid.
    pub options: Result<Options, OptionError>,
    /// Attempts that have failed so far.
    pub failures: u32,
    /// Runs that ended with the death of the runner or a lost lease.
    pub crashes: u32,
    /// Times it was snoozed.
    pub snoozes: u32,
}

impl Queue {
    /// A leased job; none if it is not leased. O(log n).
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn leased_job(
        &self,
        topic: &TopicName,
        id: &JobId,
    ) -> Result<Option<LeasedJob>, QueueError> {
        let mut tried = Vec::new();
        while let Some(shard) = self.next_shard_of_lease(topic, id, None, &tried).await? {
            if let Some(job) = self.leased_job_in(&shard, id).await? {
                return Ok(Some(job));
            }
            tried.push(shard);
        }
        Ok(None)
    }

    async fn leased_job_in(
        &self,
        shard: &Shard,
        id: &JobId,
    ) -> Result<Option<LeasedJob>, QueueError> {
        let keys = self.keys.of(shard);
        let asked = [("ZSCORE", "unack"), ("HGET", "opts"), ("HGET", "attempts")];
        let asked = asked.map(|(command, name)| {
            let mut ask = redis::cmd(command);
            ask.arg(keys.key(name)).arg(id.as_bytes());
            ask
        });
        let replies = script::run_idempotent(&self.connection, asked.into()).await?;
        let replies = replies.into_iter().collect::<Result<Vec<Value>, _>>()?;
        let Ok([token, options, attempts]) = <[Value; 3]>::try_from(replies) else {
            return Err(QueueError::BadReply("a lease is cut short".to_owned()));
        };
        if token == Value::Nil {
            return Ok(None);
        }
        let options = if options == Value::Nil { Bytes::new() } else { bytes(options)? };
        let attempts = match &attempts {
            Value::Nil => 0,
            value => score(text(value)?),
        };
        let Attempts { failures, crashes, snoozes } = Attempts::unpack(attempts);
        Ok(Some(LeasedJob {
            token: Token::expiring_at_us(score(text(&token)?)),
            options: Options::from_json(&options),
            failures,
            crashes,
            snoozes,
        }))
    }

    /// Ends a lease with a verdict. A released job without a delay gets its old due time if it has a
    /// key, else the current time: Redis does not store the due time of a leased job.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused. Without a reply the verdict may have been
    /// carried out: repeating the call then replies [`Settled::Lost`].
    pub async fn settle_one(
        &self,
        topic: &TopicName,
        id: &JobId,
        token: &Token,
        verdict: Verdict,
    ) -> Result<Settled, QueueError> {
        let mut tried = Vec::new();
        while let Some(shard) = self.next_shard_of_lease(topic, id, Some(token), &tried).await? {
            let settled = self.settle_one_in(&shard, id, token, verdict.clone()).await?;
            if settled != Settled::Lost {
                return Ok(settled);
            }
            tried.push(shard);
        }
        Ok(Settled::Lost)
    }

    async fn settle_one_in(
        &self,
        shard: &Shard,
        id: &JobId,
        token: &Token,
        verdict: Verdict,
    ) -> Result<Settled, QueueError> {
        let due_at_ms = match verdict {
            Verdict::Release { .. } => self.due_of_leased(shard, id).await?,
            _ => 0,
        };
        let lease = Lease {
            id: id.clone(),
            token: token.clone(),
            due_at_ms,
            place: due_at_ms as f64,
            payload: Bytes::new(),
            payload_bytes: 0,
            options: Ok(Options::default()),
            failures: 0,
            crashes: 0,
            snoozes: 0,
        };
        let settlement = lease.settle(verdict);
        let turn = Turn { settle: vec![&settlement], ..Turn::default() };
        let reply = self.turn(shard, &turn).await?;
        let word = reply.settled.and_then(|words| words.first().copied());
        word.ok_or_else(|| reply.error.unwrap_or_else(cut_short))
    }

    /// Extends a lease by 1 ms to one day, for a consumer (1 to 128 visible ASCII characters).
    /// Returns the new token, or none if the lease is lost. Safe to repeat.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused, or the name is invalid.
    pub async fn extend_one(
        &self,
        topic: &TopicName,
        consumer: &str,
        id: &JobId,
        token: &Token,
        by: Duration,
    ) -> Result<Option<Token>, QueueError> {
        check_consumer(consumer)
            .map_err(|error: PullOptionsError| QueueError::BadCall(error.to_string()))?;
        let extension = Extension { id: id.clone(), token: token.clone(), by };
        let turn = Turn { holder: consumer, extend: vec![&extension], ..Turn::default() };
        let mut tried = Vec::new();
        while let Some(shard) = self.next_shard_of_lease(topic, id, Some(token), &tried).await? {
            let reply = self.turn(&shard, &turn).await?;
            let extended = reply.extended.and_then(|tokens| tokens.into_iter().next());
            match extended.ok_or_else(|| reply.error.unwrap_or_else(cut_short))? {
                None => tried.push(shard),
                extended => return Ok(extended),
            }
        }
        Ok(None)
    }

    /// A shard that may hold this lease and was not tried: the one with this token, else one in which the id
    /// is leased. The number of shards may have changed since it was cached, so it is read again before
    /// this returns `None`. A topic with one shard needs no search: the verb itself finds out.
    async fn next_shard_of_lease(
        &self,
        topic: &TopicName,
        id: &JobId,
        token: Option<&Token>,
        tried: &[Shard],
    ) -> Result<Option<Shard>, QueueError> {
        for is_cached in [true, false] {
            let shards =
                if is_cached { self.shards(topic).await? } else { self.shards_now(topic).await? };
            let left: Vec<Shard> = shards.all().filter(|shard| !tried.contains(shard)).collect();
            let found = match left.as_slice() {
                [only] if tried.is_empty() => Some(only.clone()),
                _ => self.leased_in(left, id, token).await?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The shard in which an id is leased: under this token if any, else under any token.
    async fn leased_in(
        &self,
        shards: Vec<Shard>,
        id: &JobId,
        token: Option<&Token>,
    ) -> Result<Option<Shard>, QueueError> {
        let ask = |shard| {
            let mut ask = redis::cmd("ZSCORE");
            ask.arg(self.keys.of(shard).key("unack")).arg(id.as_bytes());
            ask
        };
        let replies =
            script::run_idempotent(&self.connection, shards.iter().map(ask).collect()).await?;
        let mut found = None;
        for (shard, reply) in shards.into_iter().zip(replies) {
            let reply = reply?;
            if reply == Value::Nil {
                continue;
            }
            if token.is_some_and(|token| text(&reply).ok() == token_text(token)) {
                return Ok(Some(shard));
            }
            found = Some(shard);
        }
        Ok(found)
    }

    async fn due_of_leased(&self, shard: &Shard, id: &JobId) -> Result<u64, QueueError> {
        let mut permit = redis::cmd("HGET");
        permit.arg(self.keys.of(shard).key("turns:of")).arg(id.as_bytes());
        let permit = script::run_one_idempotent(&self.connection, permit).await?;
        let due = match &permit {
            Value::Nil => None,
            value => text(value)?.split_once(' ').map(|(due, _)| score(due)),
        };
        match due {
            Some(due) => Ok(due),
            None => self.now_ms().await,
        }
    }
}

fn token_text(token: &Token) -> Option<&str> {
    std::str::from_utf8(token.as_bytes()).ok()
}

fn cut_short() -> QueueError {
    QueueError::BadReply("a reply is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_number() {
        let token: Token = "1763740800000123".parse().unwrap();
        assert_eq!(token, Token::expiring_at_us(1_763_740_800_000_123));
        for text in ["", "-1", "+1", "1.5", "lost", "99999999999999999999", "9007199254740993"] {
            let error = text.parse::<Token>().unwrap_err();
            assert!(error.to_string().contains("not a lease token"), "{text}: {error}");
        }
    }
}
