//! Which pages of a memory differ from the file that it maps, as the kernel reports them (PAGEMAP_SCAN, since
//! Linux 6.7). A page of the file has not been written since it was mapped. The shared page of zeros is where
//! a page without a file was only read, or where the kernel has merged a page that was written with zeros
//! (KSM with `use_zero_pages`).

use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{Advice, madvise};

/// How many ranges of pages one call of the kernel returns.
const REGIONS_PER_CALL: usize = 64;
/// The kernel's page categories: a page of a file, present, swapped out or being moved, and the shared page
/// of zeros.
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

/// The pages that are not those of the file, as ascending ranges of the memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PrivatePages {
    /// Pages with their own content.
    pub(crate) own: Vec<Range<usize>>,
    /// Pages that are the shared page of zeros.
    pub(crate) zero: Vec<Range<usize>>,
}

/// The kernel's view of this process's memory.
pub(crate) struct PageMap(File);

impl PageMap {
    /// The one that all modules share: with one each, thousands of topics would use up the process's descriptors. `None` if
    /// the kernel does not support the scan, as before 6.7.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<PageMap> = OnceLock::new();
        match SHARED.get() {
            Some(map) => Some(map),
            None => Self::open().map(|map| SHARED.get_or_init(|| map)),
        }
    }

    fn open() -> Option<Self> {
        let map = Self(File::open("/proc/self/pagemap").ok()?);
        map.scan(0, 0, &mut [Region::default(); REGIONS_PER_CALL]).is_some().then_some(map)
    }

    /// The private pages of `memory`, which must begin and end at a page boundary. `None` if those with their
    /// own content have more than `most` bytes together, or if the kernel reports an error.
    pub(crate) fn private(&self, memory: &[u8], most: usize) -> Option<PrivatePages> {
        let base = memory.as_ptr().addr();
        let end = (base + memory.len()) as u64;
        let (mut found, mut bytes) = (PrivatePages::default(), 0);
        let mut next = base as u64;
        while next < end {
            let mut regions = [Region::default(); REGIONS_PER_CALL];
            let walked_to = self.scan(next, end, &mut regions)?;
            for region in regions.iter().take_while(|region| region.end > 0) {
                let start = usize::try_from(region.start).ok()?.checked_sub(base)?;
                let end = usize::try_from(region.end).ok()?.checked_sub(base)?;
                if region.categories & ZERO != 0 {
                    found.zero.push(start..end);
                } else {
                    bytes += end - start;
                    found.own.push(start..end);
                }
            }
            if bytes > most || walked_to <= next {
                return None;
            }
            next = walked_to;
        }
        Some(found)
    }

    /// Fills `regions` with the private pages between `start` and `end`, and returns where the scan stopped.
    /// A page that is swapped out or being moved counts as private.
    #[expect(unsafe_code, reason = "no library wraps this ioctl")]
    fn scan(&self, start: u64, end: u64, regions: &mut [Region; REGIONS_PER_CALL]) -> Option<u64> {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start,
            end,
            walk_end: 0,
            regions: regions.as_mut_ptr().expose_provenance() as u64,
            regions_len: REGIONS_PER_CALL as u64,
            max_pages: 0,
            category_inverted: FILE,
            category_mask: FILE,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: ZERO,
        };
        // SAFETY: the request number and the layout are those of linux/fs.h. The kernel writes `walk_end`
        // and at most `regions_len` entries of `regions`. Without flags it changes no page.
        unsafe { ioctl(&self.0, Updater::<PAGEMAP_SCAN, Scan>::new(&mut scan)) }.ok()?;
        Some(scan.walk_end)
    }
}

/// Gives a memory its own copies of these pages, which keep their content. Where the kernel refuses, a page is copied when
/// it is written, as always.
#[expect(unsafe_code, reason = "no library wraps this advice for slices")]
pub(crate) fn make_private(memory: &mut [u8], pages: &[Range<usize>]) {
    for range in pages {
        let Some(part) = memory.get_mut(range.clone()) else { return };
        let start = part.as_mut_ptr().cast();
        // SAFETY: the range is borrowed for writing. The kernel changes no byte of it.
        if unsafe { madvise(start, part.len(), Advice::LinuxPopulateWrite) }.is_err() {
            return;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PAGE: usize = 4096;

    /// Whole pages that were never touched.
    #[expect(unsafe_code, reason = "maps memory as the instance pool does")]
    pub(crate) fn untouched(pages: usize) -> &'static mut [u8] {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let length = pages * PAGE;
        // SAFETY: the mapping is new, nothing else points to it, and it is never unmapped.
        unsafe {
            let start = mmap_anonymous(std::ptr::null_mut(), length, protection, MapFlags::PRIVATE)
                .unwrap();
            std::slice::from_raw_parts_mut(start.cast(), length)
        }
    }

    #[test]
    fn only_written_pages_are_private() {
        let Some(map) = PageMap::shared() else { return };
        let memory = untouched(1_000);
        assert_eq!(map.private(memory, 0), Some(PrivatePages::default()));
        // A page that is only read is the shared page of zeros.
        assert_eq!(memory.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 0);
        let found = map.private(memory, 0).unwrap();
        assert!(found.own.is_empty());
        assert_eq!((found.zero.len(), found.zero.first()), (1, Some(&(0..1_000 * PAGE))));
        memory[PAGE] = 1;
        memory[2 * PAGE] = 0;
        memory[1_000 * PAGE - 1] = 1;
        let wanted = vec![PAGE..3 * PAGE, 999 * PAGE..1_000 * PAGE];
        let found = map.private(memory, 3 * PAGE).unwrap();
        assert_eq!((found.own, found.zero), (wanted, vec![0..PAGE, 3 * PAGE..999 * PAGE]));
        assert_eq!(map.private(memory, 3 * PAGE - 1), None);
    }

    #[test]
    fn pages_that_are_made_private_keep_their_content() {
        let Some(map) = PageMap::shared() else { return };
        let memory = untouched(8);
        memory[PAGE] = 7;
        let pages = [PAGE..2 * PAGE, 4 * PAGE..6 * PAGE];
        make_private(memory, &pages);
        assert_eq!(map.private(memory, usize::MAX).unwrap().own, pages);
        assert_eq!((memory[PAGE], memory[4 * PAGE]), (7, 0));
        // A page beyond the end is left alone.
        make_private(memory, &[6 * PAGE..7 * PAGE, 8 * PAGE..9 * PAGE]);
        assert_eq!(
            map.private(memory, usize::MAX).unwrap().own,
            [PAGE..2 * PAGE, 4 * PAGE..7 * PAGE]
        );
    }

    #[test]
    fn more_ranges_than_one_call_returns_are_all_found() {
        let Some(map) = PageMap::shared() else { return };
        let memory = untouched(1_000);
        for page in (0..1_000).step_by(2) {
            memory[page * PAGE] = 1;
        }
        let found = map.private(memory, usize::MAX).unwrap();
        let wanted: Vec<_> =
            (0..1_000).step_by(2).map(|page| page * PAGE..(page + 1) * PAGE).collect();
        assert_eq!(found.own, wanted);
    }
}
