//! What a handler can import. Each import is a file here, which owns the state it needs.

pub(crate) mod abi;
pub(crate) mod assemblyscript;
pub(crate) mod blocks;
pub(crate) mod call;
pub(crate) mod http;
pub(crate) mod io;
pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod log_tail;
pub(crate) mod output;
pub(crate) mod push;
pub(crate) mod services;
pub(crate) mod spans;
pub(crate) mod stdio;
pub(crate) mod wasi;
