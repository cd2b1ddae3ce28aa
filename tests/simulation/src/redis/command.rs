//! One command: its arguments, what it does to the database, and its reply.

use redis::Value;

use super::database::{Bytes, Database};
use super::{hash, key, zset};

/// A command's name and arguments.
pub(crate) struct Arguments<'a>(pub &'a [Bytes]);

impl Arguments<'_> {
    /// How many there are, the name included.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// An argument by its place; the name has place 0.
    pub(crate) fn get(&self, at: usize) -> Result<&[u8], String> {
        let missing = || "ERR wrong number of arguments".to_owned();
        self.0.get(at).map(Vec::as_slice).ok_or_else(missing)
    }

    /// The arguments from a place on.
    pub(crate) fn from(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        self.0.iter().skip(at).map(Vec::as_slice)
    }

    /// Whether an argument is this word.
    pub(crate) fn is(&self, at: usize, word: &str) -> bool {
        self.0.get(at).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    }
}

/// A reply of bytes.
pub(crate) fn bulk(bytes: &[u8]) -> Value {
    Value::BulkString(bytes.to_vec())
}

/// A reply of a count.
pub(crate) fn whole(count: usize) -> Value {
    Value::Int(count as i64)
}

/// A reply of several values.
pub(crate) fn list(values: Vec<Value>) -> Value {
    Value::Array(values)
}

/// Reads a whole number.
pub(crate) fn integer_of(text: &[u8]) -> Result<i64, String> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}

/// What a command may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It changes nothing.
    Reads,
    /// It removes, which is allowed when memory is short.
    Removes,
    /// It may need memory.
    Adds,
}

/// What the command of this name may do.
pub(crate) fn access_of(name: &str) -> Access {
    match name {
        "HSET" | "HSETNX" | "HINCRBY" | "ZADD" | "SADD" | "SET" => Access::Adds,
        "HDEL" | "ZREM" | "ZREMRANGEBYRANK" | "ZREMRANGEBYSCORE" | "SREM" | "DEL" | "RENAMENX"
        | "EXPIRE" | "PEXPIRE" => Access::Removes,
        _ => Access::Reads,
    }
}

/// Carries out a command on the database.
pub(crate) fn execute(
    db: &mut Database,
    name: &str,
    args: &Arguments<'_>,
) -> Result<Value, String> {
    hash::execute(db, name, args)
        .or_else(|| zset::execute(db, name, args))
        .or_else(|| key::execute(db, name, args))
        .unwrap_or_else(|| Err(format!("ERR unknown command '{name}' in the simulation")))
}
