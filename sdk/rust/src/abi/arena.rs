//! An allocator for a handler that lives for one job: it hands out memory upwards and frees none.
//!
//! A fresh instance runs each job and its memory goes when it goes, so there is nothing to win by
//! freeing, and much to lose: an allocator that calls `memory.grow` costs the host a change of page
//! protection for every job. So the first [`RESERVE_LEN`] bytes are part of the module's memory from
//! the start. Only the newest block is given back or grown in place, which makes growing vectors
//! and formatting cheap.
//!
//! Invariant: `next <= end`, and `next..end` is memory of this module that nobody else uses.
#![expect(unsafe_code, reason = "an allocator deals in raw memory")]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::wasm32::{memory_grow, memory_size};
use std::cell::UnsafeCell;
use std::ptr;

/// Bytes at hand without asking the host. With a stack of 64 KiB and the data of a usual handler it
/// stays within three pages; more would cost every job, since the host clears a slot's pages.
const RESERVE_LEN: usize = 48 << 10;

/// How much is asked of the host at once, beyond what is needed: 256 KiB.
const GROWTH_PAGES: usize = 4;

const PAGE_LEN: usize = 64 << 10;

#[global_allocator]
static ARENA: Arena = Arena { free: UnsafeCell::new(None) };

static RESERVE: Reserve = Reserve(UnsafeCell::new([0; RESERVE_LEN]));

#[repr(align(16))]
struct Reserve(UnsafeCell<[u8; RESERVE_LEN]>);

// SAFETY: the module has one thread; the ABI refuses shared memories.
unsafe impl Sync for Reserve {}

struct Arena {
    /// What is left; `None` before the first block.
    free: UnsafeCell<Option<Free>>,
}

// SAFETY: as for `Reserve`.
unsafe impl Sync for Arena {}

#[derive(Clone, Copy)]
struct Free {
    next: usize,
    end: usize,
}

impl Free {
    fn reserve() -> Self {
        let start = RESERVE.0.get() as usize;
        Self { next: start, end: start + RESERVE_LEN }
    }

    /// The start of a block of this layout, and what is left behind it, if it fits.
    fn take(self, layout: Layout) -> Option<(usize, Self)> {
        let start = self.next.checked_next_multiple_of(layout.align())?;
        let next = start.checked_add(layout.size())?;
        (next <= self.end).then_some((start, Self { next, ..self }))
    }

    /// Room for at least this layout: the pages at hand are made longer, or new ones begun.
    fn grown_for(self, layout: Layout) -> Option<Self> {
        let needed = layout.size().checked_add(layout.align())?.div_ceil(PAGE_LEN);
        let pages = needed.max(GROWTH_PAGES);
        let first = match memory_grow::<0>(pages) {
            usize::MAX if pages > needed => memory_grow::<0>(needed),
            first => first,
        };
        if first == usize::MAX {
            return None;
        }
        let start = first * PAGE_LEN;
        let next = if self.end == start { self.next } else { start };
        Some(Self { next, end: memory_size::<0>() * PAGE_LEN })
    }
}

// SAFETY: blocks come from `next..end`, aligned and inside it, and `next` moves behind each; it
// moves back only over the newest block, when its owner frees or shrinks it.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: one thread, and the reference does not outlive this call, which calls no other.
        let slot = unsafe { &mut *self.free.get() };
        let free = slot.unwrap_or_else(Free::reserve);
        let taken =
            free.take(layout).or_else(|| free.grown_for(layout).and_then(|free| free.take(layout)));
        let Some((start, rest)) = taken else { return ptr::null_mut() };
        *slot = Some(rest);
        start as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        if let Some(free) = unsafe { &mut *self.free.get() }
            && block as usize + layout.size() == free.next
        {
            free.next = block as usize;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`; the reference ends before `alloc` is called below.
        if let Some(free) = unsafe { &mut *self.free.get() }
            && block as usize + layout.size() == free.next
            && new_size <= free.end - block as usize
        {
            free.next = block as usize + new_size;
            return block;
        }
        if new_size <= layout.size() {
            return block;
        }
        // SAFETY: the caller keeps `new_size` within what a layout of this alignment may have.
        let moved =
            unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both blocks are at least `layout.size()` long, and the new one is behind.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size()) };
        }
        moved
    }
}
