//! Every import of the ABI, called with any pointers, lengths and numbers, and any bytes behind them: by one
//! module, compiled once, that reads the calls it makes from its payload. Each call answers, or traps, or
//! the deadline comes; nothing is a fault of the host, and nothing it keeps is over its bounds.
#![no_main]

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::Arbitrary;
use duebox_fuzz::{Stage, assert_bounded, calls};
use duebox_sandbox::{Handler, Instances, Limits};
use libfuzzer_sys::fuzz_target;

const MEMORY_MAX: usize = 4 << 20;

/// One handler that is made anew for each job, and one that lives on.
static HANDLERS: LazyLock<[Handler; 2]> = LazyLock::new(|| {
    [1, 100].map(|jobs_each| {
        let instances = Instances { snapshot: false, jobs_each };
        let limits = Limits { memory: MEMORY_MAX, log: 4 << 10, instances, ..Limits::default() };
        let loaded = Stage::get().load(calls::module().as_bytes(), limits);
        loaded.unwrap_or_else(|error| panic!("the module that makes the calls is refused: {error}"))
    })
});

/// Calls, and the bytes that they point to.
#[derive(Debug, Arbitrary)]
struct Input {
    calls: Vec<Call>,
    data: Vec<u8>,
}

/// One call: which import, and what for each of its parameters.
#[derive(Debug, Arbitrary)]
struct Call {
    import: u8,
    narrow: [Number; calls::NARROW],
    wide: [i64; calls::WIDE],
}

/// A pointer, a length, a descriptor or any other number.
#[derive(Debug, Arbitrary)]
enum Number {
    /// Into the data.
    Data(u8),
    /// A few.
    Small(u8),
    /// So far from the end of memory.
    Edge(i8),
    /// Whatever.
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
        let report = Stage::get().run(handler, &payload, Duration::from_millis(200));
        assert_bounded(&report, MEMORY_MAX);
    }
});
