//! Work whose size the guest chooses. It is done in pieces, and the guest yields between two of them. So
//! other guests run, and the guest ends at its deadline or an interrupt, as if it computed itself.

use bytes::Bytes;
use rand::Rng as _;

use crate::imports::intercept::{HostAnswer, HostRequest, MaybeInterceptor};

/// Bytes that are copied or filled at once.
const PIECE: usize = 1 << 20;

/// Lets other guests run. If the deadline has passed, or the guest is interrupted, this never returns.
pub(crate) async fn pause() {
    tokio::task::yield_now().await;
}

/// Copies as much as fits.
pub(crate) async fn copy(target: &mut [u8], source: &[u8]) {
    for (index, (target, source)) in target.chunks_mut(PIECE).zip(source.chunks(PIECE)).enumerate()
    {
        if index > 0 {
            pause().await;
        }
        let count = target.len().min(source.len());
        target[..count].copy_from_slice(&source[..count]);
    }
}

/// A copy of the bytes.
pub(crate) async fn copied(source: &[u8]) -> Vec<u8> {
    let mut copy = Vec::with_capacity(source.len());
    for (index, piece) in source.chunks(PIECE).enumerate() {
        if index > 0 {
            pause().await;
        }
        copy.extend_from_slice(piece);
    }
    copy
}

/// Fills with random bytes.
pub(crate) async fn fill_random(interceptor: MaybeInterceptor, target: &mut [u8]) {
    if interceptor.as_deref().is_some_and(|it| it.fill_random(target)) {
        return;
    }
    for (index, piece) in target.chunks_mut(PIECE).enumerate() {
        if index > 0 {
            pause().await;
        }
        rand::rng().fill_bytes(piece);
    }
    if let Some(interceptor) = interceptor {
        let answer = HostAnswer::Random(Bytes::copy_from_slice(target));
        interceptor.answered(&HostRequest::Random(target.len()), &answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_copy_in_pieces_is_a_copy() {
        let source: Vec<u8> = (0..3 * PIECE + 7).map(|at| (at % 251) as u8).collect();
        assert_eq!(copied(&source).await, source);
        for length in [0, 1, PIECE, PIECE + 1, 4 * PIECE] {
            let mut target = vec![0; length];
            copy(&mut target, &source).await;
            let count = length.min(source.len());
            assert_eq!(target[..count], source[..count], "{length}");
            assert!(target[count..].iter().all(|byte| *byte == 0));
        }
    }
}
