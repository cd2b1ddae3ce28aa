//! What a guest does wrong in a call of the host.

/// What a guest did wrong in a call of the host. The guest traps with this text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(
        "{import}: the range of {length} bytes at {pointer} is outside the guest's memory of {memory} bytes"
    )]
    Range { import: &'static str, pointer: u32, length: u32, memory: usize },
    #[error("{import}: the module exports no memory")]
    NoMemory { import: &'static str },
    #[error(
        "{import} does not work in a start function or _initialize, where there is no job; only log and random do"
    )]
    TooEarly { import: &'static str },
    /// An interceptor has no answer to a call.
    #[error("{0}")]
    NoAnswer(String),
    /// AssemblyScript's `abort`, with its message.
    #[error("{0}")]
    Abort(String),
}
