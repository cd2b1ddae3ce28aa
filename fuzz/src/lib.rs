//! What the targets share. What links wasmtime has a feature: without it the other targets are built in a minute.

pub mod calls;
pub mod fake_redis;
#[cfg(feature = "sandbox")]
pub mod fuzzer;
pub mod http;
pub mod reply_text;
