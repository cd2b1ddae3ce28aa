//! Reads one file of JavaScript or TypeScript, as a handler module: the payload is the language and the source, the
//! result is what [`report`] writes. The language is `j`, `t`, `c` (CommonJS) or `p` (a file of a package, which
//! may be either). It runs in the sandbox, because a parser of hostile sources does not belong into the daemon.

mod blank;
mod enums;
mod properties;
mod report;
mod types;

pub use report::read;

#[cfg(target_arch = "wasm32")]
mod module {
    #[link(wasm_import_module = "duebox_v1")]
    unsafe extern "C" {
        fn payload_read(dst: *mut u8, off: u32, len: u32) -> i32;
        fn result(p: *const u8, l: u32) -> i32;
        fn reason(p: *const u8, l: u32);
    }

    /// Reads the file that is the payload.
    #[unsafe(no_mangle)]
    extern "C" fn handle(length: u32) -> i32 {
        let mut payload = vec![0; length as usize];
        // SAFETY: the range is `payload`.
        unsafe { payload_read(payload.as_mut_ptr(), 0, length) };
        let report = crate::read(&payload);
        // SAFETY: the range is `report`.
        if unsafe { result(report.as_ptr(), report.len() as u32) } == 0 {
            return 0;
        }
        let text = "it has more types or imports than one file can have";
        // SAFETY: the range is `text`.
        unsafe { reason(text.as_ptr(), text.len() as u32) };
        2
    }
}
