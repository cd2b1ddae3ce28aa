//! The imports of docs/reference/abi.md as safe functions, for the engines that run programs: QuickJS and RustPython.
//!
//! Invariant: the memory that a call names is its argument. All `unsafe` code of the engines that calls the host is here.

/// The code for invalid arguments.
pub const INVALID: i32 = -3;
/// Size of the first piece of a response, in bytes.
const FIRST_PIECE: usize = 1 << 10;

mod import {
    #[link(wasm_import_module = "duebox_v1")]
    unsafe extern "C" {
        pub(super) fn payload_read(dst: *mut u8, off: u32, len: u32) -> i32;
        pub(super) fn meta_read(key: u32, dst: *mut u8, cap: u32) -> i32;
        pub(super) fn meta_int(key: u32) -> i64;
        pub(super) fn config_read(kp: *const u8, kl: u32, dst: *mut u8, cap: u32) -> i32;
        pub(super) fn random(dst: *mut u8, len: u32);
        pub(super) fn retry_after(ms: i64);
        pub(super) fn snooze(ms: i64);
        pub(super) fn reason(p: *const u8, l: u32);
        pub(super) fn result(p: *const u8, l: u32) -> i32;
        pub(super) fn log(level: u32, p: *const u8, l: u32);
        pub(super) fn http_send(
            hp: *const u8,
            hl: u32,
            bp: *const u8,
            bl: u32,
            timeout_ms: u32,
        ) -> i32;
        pub(super) fn http_read(part: u32, dst: *mut u8, off: u32, len: u32) -> i32;
        pub(super) fn kv_get(kp: *const u8, kl: u32, dst: *mut u8, cap: u32) -> i32;
        pub(super) fn kv_set(
            kp: *const u8,
            kl: u32,
            vp: *const u8,
            vl: u32,
            ttl_ms: i64,
            mode: u32,
        ) -> i32;
        pub(super) fn kv_delete(kp: *const u8, kl: u32) -> i32;
        pub(super) fn kv_add(kp: *const u8, kl: u32, delta: i64, dst: *mut u8) -> i32;
        pub(super) fn push(hp: *const u8, hl: u32, bp: *const u8, bl: u32) -> i32;
    }
    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        pub(super) fn poll_oneoff(
            subscriptions: *const u8,
            events: *mut u8,
            count: u32,
            done: *mut u32,
        ) -> i32;
        pub(super) fn clock_time_get(id: u32, precision: u64, time: *mut u64) -> i32;
    }
}

/// A length for the host. A wasm32 memory has no longer slices.
fn length(bytes: &[u8]) -> u32 {
    bytes.len() as u32
}

pub fn payload(len: u32) -> Vec<u8> {
    // A parser appends a zero.
    let mut bytes = Vec::with_capacity(len as usize + 1);
    bytes.resize(len as usize, 0);
    // SAFETY: the range is `bytes`.
    let read = unsafe { import::payload_read(bytes.as_mut_ptr(), 0, len) };
    bytes.truncate(usize::try_from(read).unwrap_or(0));
    bytes
}

/// Calls an import that returns the full length of a value, again with more space as long as it does not fit.
fn whole(mut read: impl FnMut(&mut [u8]) -> i32) -> Result<Vec<u8>, i32> {
    let mut bytes = vec![0; 256];
    loop {
        let length = read(&mut bytes);
        let length = usize::try_from(length).map_err(|_| length)?;
        if length <= bytes.len() {
            bytes.truncate(length);
            return Ok(bytes);
        }
        bytes = vec![0; length];
    }
}

pub fn meta(key: u32) -> Option<Vec<u8>> {
    // SAFETY: the range is `into`; so it is in all calls below.
    whole(|into| unsafe { import::meta_read(key, into.as_mut_ptr(), length(into)) }).ok()
}

pub fn number(key: u32) -> i64 {
    // SAFETY: it takes no pointer.
    unsafe { import::meta_int(key) }
}

pub fn config(name: &str) -> Option<Vec<u8>> {
    let name = name.as_bytes();
    // SAFETY: as in `meta`.
    whole(|into| unsafe {
        import::config_read(name.as_ptr(), length(name), into.as_mut_ptr(), length(into))
    })
    .ok()
}

pub fn random(into: &mut [u8]) {
    // SAFETY: as in `meta`.
    unsafe { import::random(into.as_mut_ptr(), length(into)) }
}

pub fn retry_after(ms: i64) {
    // SAFETY: it takes no pointer.
    unsafe { import::retry_after(ms) }
}

pub fn snooze(ms: i64) {
    // SAFETY: it takes no pointer.
    unsafe { import::snooze(ms) }
}

pub fn reason(text: &str) {
    // SAFETY: as in `meta`.
    unsafe { import::reason(text.as_ptr(), length(text.as_bytes())) }
}

pub fn result(bytes: &[u8]) -> i32 {
    // SAFETY: as in `meta`.
    unsafe { import::result(bytes.as_ptr(), length(bytes)) }
}

pub fn log(level: u32, text: &str) {
    // SAFETY: as in `meta`.
    unsafe { import::log(level, text.as_ptr(), length(text.as_bytes())) }
}

pub fn http_send(head: &[u8], body: &[u8], timeout_ms: u32) -> i32 {
    // SAFETY: as in `meta`.
    unsafe {
        import::http_send(head.as_ptr(), length(head), body.as_ptr(), length(body), timeout_ms)
    }
}

/// A part of the last response. Its length is unknown, so each piece is as large as all before it.
pub fn http_read(part: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(2 * start.max(FIRST_PIECE / 2), 0);
        let into = &mut bytes[start..];
        let (room, offset) = (into.len(), start as u32);
        // SAFETY: as in `meta`.
        let read = unsafe { import::http_read(part, into.as_mut_ptr(), offset, length(into)) };
        let read = usize::try_from(read).unwrap_or(0);
        bytes.truncate(start + read);
        if read < room {
            return bytes;
        }
    }
}

pub fn kv_get(key: &[u8]) -> Result<Vec<u8>, i32> {
    // SAFETY: as in `meta`.
    whole(|into| unsafe {
        import::kv_get(key.as_ptr(), length(key), into.as_mut_ptr(), length(into))
    })
}

pub fn kv_set(key: &[u8], value: &[u8], ttl_ms: i64, mode: u32) -> i32 {
    // SAFETY: as in `meta`.
    unsafe {
        import::kv_set(key.as_ptr(), length(key), value.as_ptr(), length(value), ttl_ms, mode)
    }
}

pub fn kv_delete(key: &[u8]) -> i32 {
    // SAFETY: as in `meta`.
    unsafe { import::kv_delete(key.as_ptr(), length(key)) }
}

pub fn kv_add(key: &[u8], delta: i64) -> Result<i64, i32> {
    let mut sum = [0; 8];
    // SAFETY: as in `meta`; the host writes 8 bytes.
    let code = unsafe { import::kv_add(key.as_ptr(), length(key), delta, sum.as_mut_ptr()) };
    if code == 0 { Ok(i64::from_le_bytes(sum)) } else { Err(code) }
}

pub fn push(head: &[u8], body: &[u8]) -> i32 {
    // SAFETY: as in `meta`.
    unsafe { import::push(head.as_ptr(), length(head), body.as_ptr(), length(body)) }
}

/// Sleeps: one subscription to the monotonic clock of WASI, with a relative timeout.
pub fn sleep(ms: u64) {
    let mut subscription = [0; 48];
    subscription[16..20].copy_from_slice(&1_u32.to_le_bytes());
    subscription[24..32].copy_from_slice(&ms.saturating_mul(1_000_000).to_le_bytes());
    let (mut event, mut done) = ([0; 32], 0);
    // SAFETY: one subscription and one event, in the layout of WASI preview 1.
    unsafe { import::poll_oneoff(subscription.as_ptr(), event.as_mut_ptr(), 1, &raw mut done) };
}

/// The time in nanoseconds: since 1970 (0), or of the monotonic clock (1). While a program is evaluated it stands still.
pub fn clock(id: u32) -> u64 {
    let mut time = 0;
    // SAFETY: the host writes 8 bytes.
    unsafe { import::clock_time_get(id, 1, &raw mut time) };
    time
}

/// Ends the instance.
pub fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

/// Ends the instance with an overflow of the call stack, so that the failure has this class.
pub fn overflow_stack() -> ! {
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        match std::hint::black_box(depth) {
            u64::MAX => 0,
            depth => recurse(depth + 1).wrapping_add(std::hint::black_box(1)),
        }
    }
    std::hint::black_box(recurse(0));
    trap()
}
