//! Which pages of memory this process has made its own: asked of the kernel, which knows (PAGEMAP_SCAN, since
//! Linux 6.7). A page that is not among them is as it was mapped: nobody has written to it.

use std::fs::File;
use std::ops::Range;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Stretches of pages that are asked for at once.
const AT_ONCE: usize = 64;
/// What the kernel says of a page: it is there, it is swapped out or on its way elsewhere, it is that of a
/// file, it is the one page of zeros that all share.
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

/// The kernel's view of this process's memory.
pub(crate) struct PageMap(File);

impl PageMap {
    /// None where the kernel does not tell, as before 6.7.
    pub(crate) fn open() -> Option<Self> {
        let map = Self(File::open("/proc/self/pagemap").ok()?);
        map.scan(0, 0, &mut [Region::default(); AT_ONCE]).is_some().then_some(map)
    }

    /// The pages of `memory`, which begins and ends with a page, that are this process's own: as ranges of
    /// `memory`, in their order. None if they come to more than `most` bytes, or if the kernel does not say.
    pub(crate) fn own(&self, memory: &[u8], most: usize) -> Option<Vec<Range<usize>>> {
        let base = memory.as_ptr().addr();
        let end = (base + memory.len()) as u64;
        let (mut found, mut bytes) = (Vec::new(), 0);
        let mut next = base as u64;
        while next < end {
            let mut regions = [Region::default(); AT_ONCE];
            let walked_to = self.scan(next, end, &mut regions)?;
            for region in regions.iter().take_while(|region| region.end > 0) {
                let start = usize::try_from(region.start).ok()?.checked_sub(base)?;
                let end = usize::try_from(region.end).ok()?.checked_sub(base)?;
                bytes += end - start;
                found.push(start..end);
            }
            if bytes > most || walked_to <= next {
                return None;
            }
            next = walked_to;
        }
        Some(found)
    }

    /// Fills `regions` from its start with the own pages from `start` to `end`, and answers how far it looked.
    /// A page that is swapped out, or being moved, is somebody's own like one that is there.
    #[expect(unsafe_code, reason = "a question to the kernel for which no library has a call")]
    fn scan(&self, start: u64, end: u64, regions: &mut [Region; AT_ONCE]) -> Option<u64> {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            regions: regions.as_mut_ptr().expose_provenance() as u64,
            regions_len: AT_ONCE as u64,
            max_pages: 0,
            category_inverted: FILE | ZERO,
            category_mask: FILE | ZERO,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: 0,
        };
        // SAFETY: the number and the layout are the kernel's own. It writes `walk_end`, and as many entries of
        // `regions` as there are at most; it changes no page, for no flag asks it to.
        unsafe { ioctl(&self.0, Updater::<PAGEMAP_SCAN, Scan>::new(&mut scan)) }.ok()?;
        Some(scan.walk_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// Whole pages that nobody has touched.
    #[expect(unsafe_code, reason = "a mapping of its own, as the pool has them")]
    fn untouched(pages: usize) -> &'static mut [u8] {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = pages * PAGE;
        // SAFETY: a new mapping, that nothing else points to and nobody unmaps.
        unsafe {
            let start = mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)
                .unwrap();
            std::slice::from_raw_parts_mut(start.cast(), length)
        }
    }

    #[test]
    fn pages_that_were_written_are_own_and_others_are_not() {
        let Some(map) = PageMap::open() else { return };
        let memory = untouched(1_000);
        assert_eq!(map.own(memory, 0), Some(Vec::new()));
        // What is only read stays the page of zeros that all share.
        assert_eq!(memory.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 0);
        assert_eq!(map.own(memory, 0), Some(Vec::new()));
        memory[PAGE] = 1;
        memory[2 * PAGE] = 0;
        memory[1_000 * PAGE - 1] = 1;
        let wanted = vec![PAGE..3 * PAGE, 999 * PAGE..1_000 * PAGE];
        assert_eq!(map.own(memory, 3 * PAGE), Some(wanted));
        assert_eq!(map.own(memory, 3 * PAGE - 1), None);
    }

    #[test]
    fn more_stretches_than_are_asked_for_at_once_are_all_found() {
        let Some(map) = PageMap::open() else { return };
        let memory = untouched(1_000);
        for page in (0..1_000).step_by(2) {
            memory[page * PAGE] = 1;
        }
        let found = map.own(memory, usize::MAX).unwrap();
        let wanted: Vec<_> =
            (0..1_000).step_by(2).map(|page| page * PAGE..(page + 1) * PAGE).collect();
        assert_eq!(found, wanted);
    }
}
