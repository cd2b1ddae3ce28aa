//! Calls every import of the ABI with arbitrary pointers, lengths, numbers and bytes. One module,
//! compiled once, reads the calls to make from its payload. Each call must return, trap, or reach
//! the deadline. It must not cause a host fault or exceed a bound.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use duebox_fuzz::calls;
use duebox_fuzz::fuzzer::{Fuzzer, assert_bounded};
use duebox_sandbox::{Handler, Instances, Limits};
use libfuzzer_sys::fuzz_target;

const MEMORY_MAX: usize = 4 << 20;

/// One handler with a fresh instance per job, and one with a warm instance.
static HANDLERS: LazyLock<[Handler; 2]> = LazyLock::new(|| {
    [1, 100].map(|jobs_each| {
        let instances = Instances { snapshot: false, jobs_each };
        let limits = Limits { memory: MEMORY_MAX, log: 4 << 10, instances, ..Limits::default() };
        let loaded = Fuzzer::get().load(calls::module().as_bytes(), limits);
        loaded.unwrap_or_else(|error| panic!("the calling module is refused: {error}"))
    })
});

/// Calls, and the bytes that they point to.
#[derive(Debug, Arbitrary)]
struct Input {
    calls: Vec<Call>,
    data: Vec<u8>,
}

/// One call: an import and the values of its parameters.
#[derive(Debug, Arbitrary)]
struct Call {
    import: u8,
    narrow: [Number; calls::NARROW],
    wide: [i64; calls::WIDE],
}

/// A pointer, a length, a descriptor or any other number.
#[derive(Debug, Arbitrary)]
enum Number {
    /// An offset into the data.
    Data(u8),
    /// A small number.
    Small(u8),
    /// An offset from the end of memory.
    Edge(i8),
    /// Any number.
    Any(u32),
}

impl Number {
    fn value(&self) -> u32 {
        match self {
            Self::Data(offset) => calls::DATA_AT + u32::from(*offset),
            Self::Small(number) => u32::from(*number),
            Self::Edge(off) => calls::MEMORY_BYTES.wrapping_add_signed(i32::from(*off)),
            Self::Any(number) => *number,
        }
    }
}

fuzz_target!(|input: Input| {
    let calls = input.calls.iter().map(|call| {
        let narrow = call.narrow.each_ref().map(Number::value);
        calls::Record { import: call.import, narrow, wide: call.wide }
    });
    let payload = calls::payload(calls, &input.data);
    for handler in &*HANDLERS {
        let report = Fuzzer::get().run(handler, &payload, Duration::from_millis(200));
        assert_bounded(&report, MEMORY_MAX);
    }
});
