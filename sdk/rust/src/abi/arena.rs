//! An allocator for handlers that live for one job: it hands out memory upwards and does not free
//! it.
//!
//! A fresh instance runs each job and its memory goes away with it, so freeing gains nothing.
//! Growing is expensive: each `memory.grow` makes the host change page protections. The first
//! [`RESERVE_LEN`] bytes are therefore part of the module's initial memory. Only the newest block
//! can be freed or resized in place, which keeps growing vectors and formatting cheap.
//!
//! Invariant: all memory handed out is from the reserve or was grown here, so nothing else uses it.
#![expect(unsafe_code, reason = "an allocator handles raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::memory_grow;
use std::cell::{Cell, UnsafeCell};
use std::ptr;

use crate::abi::free::Free;

/// Bytes available without a host call. With a stack of 64 KiB and typical handler data this stays
/// within three pages. More would slow every job, because the host clears the pages.
const RESERVE_LEN: usize = 48 << 10;

/// Pages of 64 KiB requested from the host at once, unless a block needs more.
const GROWTH_PAGES: usize = 4;

const PAGE_LEN: usize = 64 << 10;

#[global_allocator]
static ARENA: Arena = Arena { free: Cell::new(None) };

static RESERVE: Reserve = Reserve(UnsafeCell::new([0; RESERVE_LEN]));

#[repr(align(16))]
struct Reserve(UnsafeCell<[u8; RESERVE_LEN]>);

// SAFETY: the module has one thread; the ABI refuses shared memories.
unsafe impl Sync for Reserve {}

struct Arena {
    /// The free range; `None` before the first allocation.
    free: Cell<Option<Free>>,
}

// SAFETY: the module has one thread; the ABI refuses shared memories.
unsafe impl Sync for Arena {}

impl Arena {
    fn free(&self) -> Free {
        self.free.get().unwrap_or_else(|| {
            let start = RESERVE.0.get() as usize;
            Free::new(start, start + RESERVE_LEN)
        })
    }

    /// Resizes a block in place if it is the newest one.
    fn resize(&self, block: *mut u8, size: usize, new_size: usize) -> bool {
        let mut free = self.free();
        let resized = free.resize(block as usize, size, new_size);
        self.free.set(Some(free));
        resized
    }
}

/// Adds at least `size` bytes of new memory; returns false if the host refuses.
fn grow(free: &mut Free, size: usize) -> bool {
    let needed = size.div_ceil(PAGE_LEN);
    let more = needed.max(GROWTH_PAGES);
    let (first, pages) = match memory_grow::<0>(more) {
        usize::MAX => (memory_grow::<0>(needed), needed),
        first => (first, more),
    };
    if first == usize::MAX {
        return false;
    }
    free.add(first * PAGE_LEN, (first + pages) * PAGE_LEN);
    true
}

// SAFETY: `Free` hands out each byte once, aligned and in order, and takes back only the newest
// block, when its owner frees or resizes it. Its memory is the reserve or was grown by this module.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        let mut free = self.free();
        let mut taken = free.take(size, align);
        if taken.is_none() && size.checked_add(align).is_some_and(|size| grow(&mut free, size)) {
            taken = free.take(size, align);
        }
        self.free.set(Some(free));
        taken.map_or(ptr::null_mut(), |start| start as *mut u8)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.resize(block, layout.size(), 0);
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if self.resize(block, layout.size(), new_size) || new_size <= layout.size() {
            return block;
        }
        // SAFETY: the caller keeps `new_size` within the limit of a layout with this alignment.
        let moved =
            unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both blocks are at least `layout.size()` long, and the new one does not
            // overlap the old.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size()) };
        }
        moved
    }
}
