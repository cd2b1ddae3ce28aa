//! The slow calls that Redis has logged (SLOWLOG), without their arguments: those may hold payloads.

use std::cmp::Reverse;

use redis::{Pipeline, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, count, text};
use crate::wire::script;

/// A call that took longer than Redis' `slowlog-log-slower-than`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    /// When it was made, unix seconds.
    pub at_s: u64,
    /// How long Redis worked on it, in µs.
    pub took_us: u64,
    /// The command in lower case; of a script of this crate also its name.
    pub command: String,
    /// Its first key, if that is one of the queue.
    pub key: Option<String>,
    /// The name of the client, or its address.
    pub client: String,
}

impl Queue {
    /// The latest slow calls, at most `most` of them; in a cluster, of all its primaries that reply.
    ///
    /// # Errors
    /// [`QueueError`] if no server replied, or one refused.
    pub async fn slow_calls(&self, most: usize) -> Result<Vec<SlowCall>, QueueError> {
        let mut ask = Pipeline::with_capacity(1);
        ask.cmd("SLOWLOG").arg("GET").arg(most);
        let own = self.keys.all_keys();
        let own = own.trim_end_matches('*');
        let mut calls = Vec::new();
        for reply in self.connection.send_to_all(&ask).await? {
            for entry in array(self.connection.check(reply)?)? {
                calls.push(SlowCall::read(entry, own)?);
            }
        }
        // The order within a second stays: each server lists its latest call first.
        calls.sort_by_key(|call| Reverse(call.at_s));
        calls.truncate(most);
        Ok(calls)
    }
}

impl SlowCall {
    /// Reads an entry: number, time, duration, arguments, address and name of the client.
    fn read(entry: Value, own_keys: &str) -> Result<Self, QueueError> {
        let fields = array(entry)?;
        let field = |at: usize| fields.get(at).cloned().unwrap_or(Value::Nil);
        let words: Vec<String> = array(field(3))?.iter().map(word).collect();
        let command = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let is_script = ["eval", "evalsha", "eval_ro", "evalsha_ro"].contains(&command.as_str());
        // A script has its digest or text and the number of keys first.
        let key = words.get(if is_script { 3 } else { 1 });
        let name = words.get(1).filter(|_| is_script).and_then(|digest| script::path_of(digest));
        let client = [field(5), field(4)].iter().map(word).find(|name| !name.is_empty());
        Ok(Self {
            at_s: count(&field(1))?,
            took_us: count(&field(2))?,
            command: name.map_or(command.clone(), |name| format!("{command} {name}")),
            key: key.filter(|key| key.starts_with(own_keys)).cloned(),
            client: client.unwrap_or_default(),
        })
    }
}

/// A word as text; empty for other values.
fn word(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        value => text(value).unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(words: &[&str]) -> Value {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let words = words.iter().map(|word| text(word)).collect();
        let (at, took) = (Value::Int(1_763_740_800), Value::Int(12_345));
        let client = text("127.0.0.1:4242");
        Value::Array(vec![Value::Int(7), at, took, Value::Array(words), client, text("")])
    }

    #[test]
    fn an_entry_names_command_script_and_own_key_and_no_argument() {
        let read = |words: &[&str]| SlowCall::read(entry(words), "duebox:").unwrap();
        let (digest, _) = script::digest_and_keys("work/settle").unwrap();
        let settle = read(&["EVALSHA", &digest, "9", "duebox:{mail}:jobs", "secret"]);
        assert_eq!((settle.at_s, settle.took_us), (1_763_740_800, 12_345));
        assert_eq!(settle.command, "evalsha work/settle");
        assert_eq!(settle.key.as_deref(), Some("duebox:{mail}:jobs"));
        assert_eq!(settle.client, "127.0.0.1:4242");
        let set = read(&["SET", "session:7", "secret"]);
        assert_eq!((set.command.as_str(), set.key), ("set", None));
        assert_eq!(read(&["EVAL", "return 1", "0"]).command, "eval");
        assert!(SlowCall::read(Value::Int(1), "duebox:").is_err());
    }
}
