//! Warm instances between two jobs. The shelf is short and shared by all topics; what was put there
//! longest ago makes room, so that no topic's instances keep the slots of another's.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::instance::Instance;

/// Instances that are kept, of all modules together. The pool has as many slots for them.
pub(crate) const WARM_MAX: u32 = 64;

/// The instances that wait, newest last, each with the number of its module.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<VecDeque<(u64, Box<Instance>)>>);

impl Shelf {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(u64, Box<Instance>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the instance of a module that was put back last: what it uses is still at hand.
    pub(crate) fn take(&self, module: u64) -> Option<Box<Instance>> {
        let mut kept = self.kept();
        let at = kept.iter().rposition(|(owner, _)| *owner == module)?;
        kept.remove(at).map(|(_, instance)| instance)
    }

    /// Puts an instance back for the next job.
    pub(crate) fn put(&self, module: u64, instance: Box<Instance>) {
        let mut kept = self.kept();
        kept.push_back((module, instance));
        let oldest = if kept.len() > WARM_MAX as usize { kept.pop_front() } else { None };
        // An instance takes its time to end; nobody need wait for it.
        drop(kept);
        drop(oldest);
    }

    /// Ends all instances of a module.
    pub(crate) fn forget(&self, module: u64) {
        let mut kept = self.kept();
        let all = std::mem::take(&mut *kept);
        let (gone, stay): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|(owner, _)| *owner == module);
        *kept = stay;
        drop(kept);
        drop(gone);
    }

    /// Ends those that wait longest until they have given back so many bytes of memory; if all together hold
    /// less, none. Answers whether it did.
    pub(crate) fn make_room(&self, bytes: usize) -> bool {
        let mut kept = self.kept();
        let (mut freed, mut ending) = (0, 0);
        for (_, instance) in kept.iter() {
            if freed >= bytes {
                break;
            }
            freed += instance.memory_held();
            ending += 1;
        }
        if freed < bytes {
            return false;
        }
        let ending: Vec<_> = kept.drain(..ending).collect();
        drop(kept);
        drop(ending);
        true
    }
}
