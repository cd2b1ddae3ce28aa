//! The imports of namespace `duebox_v1` (`docs/reference/abi.md`), each as a safe function.
//!
//! Invariant: every pointer passed to the host comes from a slice that is borrowed during the call,
//! with that slice's own length. The linker drops imports that a handler never calls.
#![expect(unsafe_code, reason = "the host takes raw pointers")]

use crate::Level;
use crate::abi::{Meta, Mode, Part};

mod host {
    #[link(wasm_import_module = "duebox_v1")]
    unsafe extern "C" {
        pub(super) fn payload_read(dst: *mut u8, offset: u32, len: u32) -> i32;
        pub(super) fn meta_read(key: i32, dst: *mut u8, cap: u32) -> i32;
        pub(super) safe fn meta_int(key: i32) -> i64;
        pub(super) fn config_read(name: *const u8, name_len: u32, dst: *mut u8, cap: u32) -> i32;
        pub(super) fn random(dst: *mut u8, len: u32);
        pub(super) safe fn retry_after(ms: i64);
        pub(super) safe fn snooze(ms: i64);
        pub(super) fn reason(text: *const u8, len: u32);
        pub(super) fn result(bytes: *const u8, len: u32) -> i32;
        pub(super) fn log(level: i32, text: *const u8, len: u32);
        pub(super) fn push(head: *const u8, head_len: u32, body: *const u8, body_len: u32) -> i32;
        pub(super) fn http_send(
            head: *const u8,
            head_len: u32,
            body: *const u8,
            body_len: u32,
            timeout_ms: i32,
        ) -> i32;
        pub(super) fn http_read(part: i32, dst: *mut u8, offset: u32, len: u32) -> i32;
        pub(super) fn kv_get(key: *const u8, key_len: u32, dst: *mut u8, cap: u32) -> i32;
        pub(super) fn kv_set(
            key: *const u8,
            key_len: u32,
            value: *const u8,
            value_len: u32,
            ttl_ms: i64,
            mode: i32,
        ) -> i32;
        pub(super) fn kv_delete(key: *const u8, key_len: u32) -> i32;
        pub(super) fn kv_add(key: *const u8, key_len: u32, delta: i64, dst: *mut u8) -> i32;
    }
}

// In every function below, a slice in 32-bit memory is never longer than `u32::MAX`, and the host
// accesses only the given pointer and length.

pub(crate) fn payload_read(offset: u32, into: &mut [u8]) -> usize {
    // SAFETY: `into` is borrowed for the call, with its own length.
    let read = unsafe { host::payload_read(into.as_mut_ptr(), offset, into.len() as u32) };
    usize::try_from(read).unwrap_or(0)
}

pub(crate) fn meta_read(key: Meta, into: &mut [u8]) -> i32 {
    // SAFETY: `into` is borrowed for the call, with its own length.
    unsafe { host::meta_read(key as i32, into.as_mut_ptr(), into.len() as u32) }
}

pub(crate) fn meta_int(key: Meta) -> i64 {
    host::meta_int(key as i32)
}

pub(crate) fn config_read(name: &str, into: &mut [u8]) -> i32 {
    let (name, name_len) = (name.as_ptr(), name.len() as u32);
    // SAFETY: `name` and `into` are borrowed for the call, with their own lengths.
    unsafe { host::config_read(name, name_len, into.as_mut_ptr(), into.len() as u32) }
}

pub(crate) fn random(into: &mut [u8]) {
    // SAFETY: `into` is borrowed for the call, with its own length.
    unsafe { host::random(into.as_mut_ptr(), into.len() as u32) }
}

pub(crate) fn retry_after(ms: i64) {
    host::retry_after(ms);
}

pub(crate) fn snooze(ms: i64) {
    host::snooze(ms);
}

pub(crate) fn reason(text: &str) {
    // SAFETY: `text` is borrowed for the call, with its own length.
    unsafe { host::reason(text.as_ptr(), text.len() as u32) }
}

pub(crate) fn result(bytes: &[u8]) -> i32 {
    // SAFETY: `bytes` is borrowed for the call, with its own length.
    unsafe { host::result(bytes.as_ptr(), bytes.len() as u32) }
}

pub(crate) fn push(head: &str, body: &[u8]) -> i32 {
    let (head, head_len) = (head.as_ptr(), head.len() as u32);
    // SAFETY: `head` and `body` are borrowed for the call, with their own lengths.
    unsafe { host::push(head, head_len, body.as_ptr(), body.len() as u32) }
}

pub(crate) fn http_send(head: &str, body: &[u8], timeout_ms: i32) -> i32 {
    let (head, head_len) = (head.as_ptr(), head.len() as u32);
    // SAFETY: `head` and `body` are borrowed for the call, with their own lengths.
    unsafe { host::http_send(head, head_len, body.as_ptr(), body.len() as u32, timeout_ms) }
}

pub(crate) fn http_read(part: Part, offset: u32, into: &mut [u8]) -> usize {
    let (dst, len) = (into.as_mut_ptr(), into.len() as u32);
    // SAFETY: `into` is borrowed for the call, with its own length.
    let read = unsafe { host::http_read(part as i32, dst, offset, len) };
    usize::try_from(read).unwrap_or(0)
}

pub(crate) fn kv_get(key: &[u8], into: &mut [u8]) -> i32 {
    let (key, key_len) = (key.as_ptr(), key.len() as u32);
    // SAFETY: `key` and `into` are borrowed for the call, with their own lengths.
    unsafe { host::kv_get(key, key_len, into.as_mut_ptr(), into.len() as u32) }
}

pub(crate) fn kv_set(key: &[u8], value: &[u8], ttl_ms: i64, mode: Mode) -> i32 {
    let (key, key_len, mode) = (key.as_ptr(), key.len() as u32, mode as i32);
    // SAFETY: `key` and `value` are borrowed for the call, with their own lengths.
    unsafe { host::kv_set(key, key_len, value.as_ptr(), value.len() as u32, ttl_ms, mode) }
}

pub(crate) fn kv_delete(key: &[u8]) -> i32 {
    // SAFETY: `key` is borrowed for the call, with its own length.
    unsafe { host::kv_delete(key.as_ptr(), key.len() as u32) }
}

pub(crate) fn kv_add(key: &[u8], delta: i64, into: &mut [u8; 8]) -> i32 {
    // SAFETY: `key` is borrowed for the call, with its own length; the host writes the 8 bytes of
    // `into`.
    unsafe { host::kv_add(key.as_ptr(), key.len() as u32, delta, into.as_mut_ptr()) }
}

pub(crate) fn log(level: Level, text: &str) {
    // SAFETY: `text` is borrowed for the call, with its own length.
    unsafe { host::log(level as i32, text.as_ptr(), text.len() as u32) }
}
