//! Loads arbitrary bytes as a module. They must be refused with a reason, or load and run once,
//! fresh or from a snapshot, within the limits. A module must not cause a host fault.
#![no_main]

use std::num::NonZeroU64;
use std::time::Duration;

use duebox_fuzz::fuzzer::{Fuzzer, assert_bounded};
use duebox_sandbox::{Instances, Limits};
use libfuzzer_sys::fuzz_target;

const MEMORY_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let fuzzer = Fuzzer::get();
    let instances = Instances { snapshot: bytes.len().is_multiple_of(3), jobs_each: 1 };
    let limits = Limits {
        memory: MEMORY_MAX,
        module: 256 << 10,
        log: 4 << 10,
        tables: 1_000,
        fuel: NonZeroU64::new(100_000),
        instances,
        ..Limits::default()
    };
    let Ok(handler) = fuzzer.load(bytes, limits) else { return };
    let report = fuzzer.run(&handler, b"{\"order\":42}", Duration::from_millis(200));
    assert_bounded(&report, MEMORY_MAX);
});
