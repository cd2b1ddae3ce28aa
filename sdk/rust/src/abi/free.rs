//! The arena's bookkeeping of free memory, in plain numbers.
//!
//! Invariant: `next <= end`, and `next..end` is free. An allocated block lies wholly before `next`,
//! and `next` moves back only over the newest block.

/// The free range of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Free {
    next: usize,
    end: usize,
}

impl Free {
    /// Creates a range of which all is free.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { next: start, end: end.max(start) }
    }

    /// Allocates a block of `size` bytes aligned to `align` and returns its start, if it fits.
    pub(crate) fn take(&mut self, size: usize, align: usize) -> Option<usize> {
        let start = self.next.checked_next_multiple_of(align)?;
        let next = start.checked_add(size)?;
        if next > self.end {
            return None;
        }
        self.next = next;
        Some(start)
    }

    /// Resizes a block in place if it is the newest one and the new size fits.
    pub(crate) fn resize(&mut self, start: usize, size: usize, new_size: usize) -> bool {
        if start + size != self.next || new_size > self.end - start {
            return false;
        }
        self.next = start + new_size;
        true
    }

    /// Adds `start..end`: extends the free range if adjacent, replaces it otherwise.
    pub(crate) fn add(&mut self, start: usize, end: usize) {
        if start != self.end {
            self.next = start;
        }
        self.end = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudo-random number below `bound`, the same in every run.
    fn below(seed: &mut u64, bound: usize) -> usize {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % bound
    }

    #[test]
    fn no_two_blocks_ever_share_a_byte() {
        let mut seed = 7;
        for _ in 0..200 {
            let mut free = Free::new(1_000, 9_000);
            let mut blocks: Vec<(usize, usize)> = Vec::new();
            for _ in 0..200 {
                match below(&mut seed, 4) {
                    0 if !blocks.is_empty() => {
                        let index = below(&mut seed, blocks.len());
                        let (start, size) = blocks[index];
                        let new_size = below(&mut seed, 200);
                        if free.resize(start, size, new_size) {
                            blocks[index].1 = new_size;
                        }
                    }
                    1 if free.end < 20_000 => {
                        let start = free.end + below(&mut seed, 2) * 500;
                        free.add(start, start + 1_000);
                    }
                    _ => {
                        let (size, align) = (1 + below(&mut seed, 200), 1 << below(&mut seed, 5));
                        if let Some(start) = free.take(size, align) {
                            assert_eq!(start % align, 0);
                            assert!(start >= 1_000 && start + size <= free.end);
                            blocks.push((start, size));
                        }
                    }
                }
            }
            blocks.retain(|(_, size)| *size > 0);
            blocks.sort_unstable();
            for pair in blocks.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
            }
        }
    }

    #[test]
    fn only_the_newest_block_grows_in_place() {
        let mut free = Free::new(0, 100);
        assert_eq!((free.take(10, 1), free.take(10, 16)), (Some(0), Some(16)));
        assert!(!free.resize(0, 10, 5), "an older block");
        assert!(free.resize(16, 10, 84), "to the very end");
        assert!(!free.resize(16, 84, 85), "past the end");
        assert_eq!(free.take(1, 1), None);
        assert!(free.resize(16, 84, 0), "given back");
        assert_eq!(free.take(84, 1), Some(16));
    }

    #[test]
    fn a_block_that_does_not_fit_changes_nothing() {
        let mut free = Free::new(8, 24);
        let before = free;
        for (size, align) in [(17, 1), (usize::MAX, 1), (1, 1 << 40)] {
            assert_eq!(free.take(size, align), None);
        }
        assert_eq!(free, before);
    }

    #[test]
    fn adjacent_memory_extends_and_other_memory_replaces() {
        let mut free = Free::new(0, 100);
        assert_eq!(free.take(60, 1), Some(0));
        free.add(100, 200);
        assert_eq!(free.take(140, 1), Some(60));
        free.add(1_000, 1_100);
        assert_eq!(free.take(100, 1), Some(1_000));
    }
}
