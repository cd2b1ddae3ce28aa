//! Names for calls that change something once, though they are repeated after a lost reply. A caller makes
//! one call at a time and numbers its calls, so Redis keeps no more than the last number and reply of each
//! caller.

use parking_lot::Mutex;

/// The callers of this process that share a name.
pub(crate) struct Callers {
    name: String,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    created: u64,
    /// Those that make no call now.
    free: Vec<Caller>,
}

struct Caller {
    name: String,
    calls: u64,
}

/// A call that is under way. Its caller is free again when it ends.
pub(crate) struct NumberedCall<'c> {
    callers: &'c Callers,
    caller: Caller,
}

impl Default for Callers {
    fn default() -> Self {
        Self { name: format!("{:032x}", fastrand::u128(..)), pool: Mutex::default() }
    }
}

impl Callers {
    /// Begins a call by a caller that makes no other.
    pub(crate) fn begin(&self) -> NumberedCall<'_> {
        let mut pool = self.pool.lock();
        let mut caller = pool.free.pop().unwrap_or_else(|| {
            pool.created += 1;
            Caller { name: format!("{}:{}", self.name, pool.created), calls: 0 }
        });
        caller.calls += 1;
        NumberedCall { callers: self, caller }
    }
}

impl NumberedCall<'_> {
    /// The name of the caller.
    pub(crate) fn caller(&self) -> &str {
        &self.caller.name
    }

    /// The number of the call: higher than those of the caller's earlier calls.
    pub(crate) fn number(&self) -> u64 {
        self.caller.calls
    }
}

impl Drop for NumberedCall<'_> {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.caller.name);
        let caller = Caller { name, calls: self.caller.calls };
        self.callers.pool.lock().free.push(caller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_makes_one_call_at_a_time() {
        let callers = Callers::default();
        let (one, other) = (callers.begin(), callers.begin());
        assert_ne!(one.caller(), other.caller());
        let first = one.caller().to_owned();
        drop(one);
        let again = callers.begin();
        assert_eq!((again.caller(), again.number(), other.number()), (first.as_str(), 2, 1));
    }
}
