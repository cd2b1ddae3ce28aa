//! Generated test handlers. Each logs a word, waits, and returns a verdict.

use std::time::Duration;

use sha2::{Digest, Sha256};

const ACK: &str = "(i32.const 0)";
const NACK: &str = "(i32.const 1)";

/// A generated handler; `Handler::logs("hi").wat()` logs `hi` and acks.
pub(crate) struct Handler {
    word: String,
    nap: Duration,
    /// As an expression.
    verdict: &'static str,
    echo: bool,
}

impl Handler {
    /// A handler that logs this word and acks.
    pub(crate) fn logs(word: &str) -> Self {
        assert!(word.chars().all(|c| c.is_ascii_alphanumeric() || c == ' '), "{word:?}");
        Self { word: word.to_owned(), nap: Duration::ZERO, verdict: ACK, echo: false }
    }

    /// Sleeps in a host call before it returns, which takes time but no CPU.
    pub(crate) fn naps(mut self, nap: Duration) -> Self {
        self.nap = nap;
        self
    }

    /// Logs its payload after its word.
    pub(crate) fn echoes(mut self) -> Self {
        self.echo = true;
        self
    }

    pub(crate) fn nacks(mut self) -> Self {
        self.verdict = NACK;
        self
    }

    /// Nacks payloads of an odd number of bytes.
    pub(crate) fn nacks_odd(mut self) -> Self {
        self.verdict = "(i32.and (local.get $len) (i32.const 1))";
        self
    }

    /// Drops payloads of an odd number of bytes.
    pub(crate) fn drops_odd(mut self) -> Self {
        self.verdict = "(i32.shl (i32.and (local.get $len) (i32.const 1)) (i32.const 1))";
        self
    }

    /// The module as text.
    pub(crate) fn wat(&self) -> String {
        let nap = match self.nap.as_nanos() {
            0 => String::new(),
            ns => format!(
                "(i32.store (i32.const 16) (i32.const 1))
                 (i64.store (i32.const 24) (i64.const {ns}))
                 (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))"
            ),
        };
        let echo = match self.echo {
            false => "",
            true => {
                "(call $log (i32.const 2) (i32.const 2048)
                   (call $read (i32.const 2048) (i32.const 0) (local.get $len)))"
            }
        };
        format!(
            r#"(module
                 (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
                 (import "duebox_v1" "payload_read"
                   (func $read (param i32 i32 i32) (result i32)))
                 (import "wasi_snapshot_preview1" "poll_oneoff"
                   (func $poll (param i32 i32 i32 i32) (result i32)))
                 (memory (export "memory") 1)
                 (data (i32.const 1024) "{word}")
                 (func (export "handle") (param $len i32) (result i32)
                   (call $log (i32.const 2) (i32.const 1024) (i32.const {length}))
                   {echo}
                   {nap}
                   {verdict}))"#,
            word = self.word,
            length = self.word.len(),
            verdict = self.verdict,
        )
    }

    /// The module in binary.
    pub(crate) fn wasm(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap()
    }
}

/// The digest of a module as the log shows it.
pub(crate) fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// A module of `tests/hostile`, as text.
pub(crate) fn hostile(name: &str) -> String {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/hostile");
    std::fs::read_to_string(format!("{dir}/{name}.wat")).unwrap()
}
