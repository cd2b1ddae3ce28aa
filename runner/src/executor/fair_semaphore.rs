//! A gate: so many may be past it at once, and who waits before it waits in a line.
//!
//! The lines take turns, however long each is, so a line of a thousand has no more of the gate than a line
//! of one. A part of the room behind it can be kept, in equal shares, for lines that have less than theirs:
//! then what holds its place for long cannot shut out who comes later.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A gate with room for so many at once. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<State>>);

/// Where some wait, and what they have of a gate. Dropping it takes the line away.
pub struct Line {
    gate: Gate,
    id: u64,
}

/// Leave to be past the gate, until it is dropped.
pub struct Pass(Option<Arc<Line>>);

type Waiter = (oneshot::Sender<Pass>, Arc<Line>);

struct State {
    free: usize,
    /// Of the room, how much is kept for lines that have less than their share.
    kept: usize,
    /// The share of each line, as long as it wants that much.
    share: usize,
    /// What lines have less than their shares, together.
    owed: usize,
    lines: HashMap<u64, Standing>,
    /// Lines in which somebody waits, the next to be served first.
    turns: VecDeque<u64>,
    next_id: u64,
}

#[derive(Default)]
struct Standing {
    held: usize,
    wants: usize,
    waiting: VecDeque<Waiter>,
}

impl Gate {
    /// A gate with room for so many; of that room, `kept` is for lines that have less than their share.
    pub fn new(room: usize, kept: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: room,
            kept: kept.min(room),
            share: kept.min(room),
            owed: 0,
            lines: HashMap::new(),
            turns: VecDeque::new(),
            next_id: 0,
        })))
    }

    /// A new line before the gate, in which so many want to be past it at once.
    pub fn line(&self, wants: usize) -> Arc<Line> {
        let mut state = self.state();
        let id = state.next_id;
        state.next_id += 1;
        state.lines.insert(id, Standing { wants, ..Standing::default() });
        state.share_out();
        drop(state);
        Arc::new(Line { gate: self.clone(), id })
    }

    /// How many more may be past it now.
    pub fn free(&self) -> usize {
        self.state().free
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and lets in who may come in now.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        while let Some((waiter, line)) = state.next() {
            let id = line.id;
            // Who has given up waiting hands the pass back.
            if let Err(mut pass) = waiter.send(Pass(Some(line))) {
                let line = pass.0.take();
                state.give_back(id);
                // If it was the last of its line, the line goes, which needs the gate.
                drop(state);
                drop((pass, line));
                state = self.state();
            }
        }
    }
}

impl Line {
    /// Waits for a pass, in this line. `wants` is how many of it want to be past the gate at once now.
    pub async fn enter(self: &Arc<Self>, wants: usize) -> Pass {
        loop {
            let waiter = {
                let mut state = self.gate.state();
                if state.enter(self.id, wants) {
                    return Pass(Some(Arc::clone(self)));
                }
                let (waiter, pass) = oneshot::channel();
                state.wait(self.id, (waiter, Arc::clone(self)));
                pass
            };
            if let Ok(pass) = waiter.await {
                return pass;
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.gate.change(|state| {
            state.lines.remove(&self.id);
            state.share_out();
        });
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.gate.change(|state| state.give_back(line.id));
        }
    }
}

impl Standing {
    fn owed(&self, share: usize) -> usize {
        self.wants.min(share).saturating_sub(self.held)
    }
}

impl State {
    /// Reckons the shares anew for as many lines as there are: equal, and one at least.
    fn share_out(&mut self) {
        let lines = self.lines.len().max(1);
        let share = if self.kept == 0 { 0 } else { (self.kept / lines).max(1) };
        self.share = share;
        self.owed = self.lines.values().map(|line| line.owed(share)).sum();
    }

    /// Changes what a line has or wants.
    fn change(&mut self, id: u64, change: impl FnOnce(&mut Standing)) {
        if let Some(line) = self.lines.get_mut(&id) {
            let before = line.owed(self.share);
            change(line);
            self.owed = self.owed + line.owed(self.share) - before;
        }
    }

    /// Whether one more of a line may come in: there is room beyond what is kept for others.
    fn has_room(&self, id: u64) -> bool {
        let is_owed = self.lines.get(&id).is_some_and(|line| line.owed(self.share) > 0);
        let kept = if is_owed { 0 } else { self.owed.min(self.kept) };
        self.free > kept
    }

    /// Lets one of a line in if nobody of it waits and there is room.
    fn enter(&mut self, id: u64, wants: usize) -> bool {
        self.change(id, |line| line.wants = wants);
        let waits = self.lines.get(&id).is_some_and(|line| !line.waiting.is_empty());
        let enters = !waits && self.has_room(id);
        if enters {
            self.take(id);
        }
        enters
    }

    fn take(&mut self, id: u64) {
        self.free -= 1;
        self.change(id, |line| line.held += 1);
    }

    fn give_back(&mut self, id: u64) {
        self.free += 1;
        self.change(id, |line| line.held -= 1);
    }

    fn wait(&mut self, id: u64, waiter: Waiter) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        line.waiting.push_back(waiter);
        if line.waiting.len() == 1 {
            self.turns.push_back(id);
        }
    }

    /// The next who may come in, of the first line that may; its line goes to the end.
    fn next(&mut self) -> Option<Waiter> {
        for _ in 0..self.turns.len() {
            let id = self.turns.pop_front()?;
            if !self.has_room(id) {
                self.turns.push_back(id);
                continue;
            }
            let Some(line) = self.lines.get_mut(&id) else { continue };
            let Some(waiter) = line.waiting.pop_front() else { continue };
            if !line.waiting.is_empty() {
                self.turns.push_back(id);
            }
            self.take(id);
            return Some(waiter);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Pass>>>;

    /// Asks for a pass: at once, or as somebody who waits.
    fn ask(line: &Arc<Line>, wants: usize) -> Result<Pass, Waiting> {
        let line = Arc::clone(line);
        let mut waiting: Waiting = Box::pin(async move { line.enter(wants).await });
        match look(&mut waiting) {
            Some(pass) => Ok(pass),
            None => Err(waiting),
        }
    }

    fn look(waiting: &mut Waiting) -> Option<Pass> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(pass) => Some(pass),
            Poll::Pending => None,
        }
    }

    #[test]
    fn lines_take_turns_however_long_they_are() {
        let gate = Gate::new(1, 0);
        let (long, short) = (gate.line(9), gate.line(1));
        let mut inside = ask(&long, 9).ok().unwrap();
        let mut of_long: Vec<Waiting> = (0..3).map(|_| ask(&long, 9).err().unwrap()).collect();
        let mut of_short = ask(&short, 1).err().unwrap();
        drop(inside);
        inside = look(&mut of_long.remove(0)).unwrap();
        assert!(look(&mut of_short).is_none());
        drop(inside);
        assert!(look(&mut of_long[0]).is_none());
        inside = look(&mut of_short).unwrap();
        drop(inside);
        inside = look(&mut of_long.remove(0)).unwrap();
        drop(inside);
        drop(look(&mut of_long.remove(0)).unwrap());
        assert_eq!(gate.free(), 1);
    }

    #[test]
    fn a_share_is_kept_for_who_has_less() {
        let gate = Gate::new(8, 4);
        let (greedy, late) = (gate.line(100), gate.line(100));
        let mut held: Vec<Pass> = std::iter::from_fn(|| ask(&greedy, 100).ok()).collect();
        assert_eq!(held.len(), 6);
        held.push(ask(&late, 100).ok().unwrap());
        held.push(ask(&late, 100).ok().unwrap());
        assert!(ask(&late, 100).is_err());
        drop(held);
        assert_eq!(gate.free(), 8);
    }

    #[test]
    fn nothing_is_kept_for_who_does_not_want_it() {
        let gate = Gate::new(8, 4);
        let alone = gate.line(8);
        let held: Vec<Pass> = std::iter::from_fn(|| ask(&alone, 8).ok()).collect();
        assert_eq!(held.len(), 8);
        drop((held, alone));
        let (large, small) = (gate.line(7), gate.line(1));
        let held: Vec<Pass> = std::iter::from_fn(|| ask(&large, 7).ok()).take(7).collect();
        assert_eq!((held.len(), ask(&small, 1).is_ok()), (7, true));
    }

    #[test]
    fn more_lines_than_room_can_still_be_served() {
        let gate = Gate::new(4, 1);
        let lines: Vec<_> = (0..50).map(|_| gate.line(1)).collect();
        let held: Vec<Pass> = lines.iter().filter_map(|line| ask(line, 1).ok()).collect();
        assert_eq!(held.len(), 4);
        let mut waiting = ask(&lines[40], 1).err().unwrap();
        drop(held);
        assert!(look(&mut waiting).is_some());
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind() {
        let gate = Gate::new(1, 0);
        let (one, other) = (gate.line(1), gate.line(1));
        let inside = ask(&one, 1).ok().unwrap();
        drop(ask(&one, 1).err().unwrap());
        drop(ask(&other, 1).err().unwrap());
        let mut waits = ask(&other, 1).err().unwrap();
        drop(inside);
        let granted = look(&mut waits).unwrap();
        let untaken = ask(&one, 1).err().unwrap();
        drop(granted);
        // It was granted and never looked at.
        drop(untaken);
        assert_eq!(gate.free(), 1);
        drop((one, other));
        assert_eq!(gate.state().lines.len(), 0);
    }
}
