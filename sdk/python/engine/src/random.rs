//! Random numbers: all that Rust code draws comes from the host.
//!
//! Invariant: a job draws none that another job of the snapshot drew. What was seeded while the program was
//! evaluated is seeded again (`begin_job`, and `begin_job` in `python/_duebox_system.py`).

use duebox_engine_abi as abi;

/// The source of the crate `getrandom`, which `.cargo/config.toml` selects.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    into: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: the caller passes a range that it owns. The bytes may be uninitialized, so they are written first.
    let into = unsafe {
        into.write_bytes(0, length);
        std::slice::from_raw_parts_mut(into, length)
    };
    abi::random(into);
    Ok(())
}

/// Seeds the generator of this thread.
pub(crate) fn begin_job() {
    if rand::rng().reseed().is_err() {
        abi::trap();
    }
}
