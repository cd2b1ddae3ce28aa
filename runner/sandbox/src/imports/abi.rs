//! The constants of `duebox_v1` (docs/reference/abi.md): its namespace and its error codes, and how an
//! import returns bytes.

use crate::imports::io::HostIo;

/// The namespace, which is the version.
pub(crate) const NAMESPACE: &str = "duebox_v1";

pub(crate) const NOT_FOUND: i32 = -1;
pub(crate) const DENIED: i32 = -2;
pub(crate) const INVALID: i32 = -3;
pub(crate) const TOO_LARGE: i32 = -4;
pub(crate) const TIMEOUT: i32 = -5;
pub(crate) const UNAVAILABLE: i32 = -6;
pub(crate) const CONFLICT: i32 = -7;

/// Copies as much as fits and returns the number of bytes copied.
fn copy(io: &HostIo, target: &mut [u8], source: &[u8]) -> i32 {
    let count = target.len().min(source.len());
    target[..count].copy_from_slice(&source[..count]);
    io.count_in(count);
    copied(count)
}

/// The number of bytes copied, as a guest receives it.
pub(crate) fn copied(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// Copies as much as fits and returns the full length: `=n` in docs/reference/abi.md.
pub(crate) fn fill(io: &HostIo, target: &mut [u8], source: &[u8]) -> i32 {
    copy(io, target, source);
    copied(source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_returns_the_full_length_and_copy_the_copied_one() {
        let mut target = [0; 2];
        let io = HostIo::default();
        assert_eq!((fill(&io, &mut target, b"abc"), &target), (3, b"ab"));
        assert_eq!((copy(&io, &mut target, b"xyz"), &target), (2, b"xy"));
        assert_eq!(fill(&io, &mut [], b"abc"), 3);
        assert_eq!(io.bytes_in(), 4);
    }
}
