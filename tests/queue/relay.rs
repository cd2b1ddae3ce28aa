//! Follow-ups between the two topics of a life: relayed whole, or by a relay that reads an outbox,
//! stops for a while, pushes some of what it read, and may die.

use std::time::Duration;

use duebox_job::JobId;
use duebox_queue::{RelayPass, Settled, Verdict};

use crate::life::{Outcome, Side, World, moments, quietly};
use crate::model::Model;
use crate::parcel::{Parcel, STALE, Word};
use crate::snapshot::Snapshot;
use crate::step::Claim;

/// Outbox entries of which every order can be tried.
pub(crate) const ENTRIES_MAX: usize = 3;

/// What somebody has read of an outbox.
#[derive(Debug)]
pub(crate) struct Reading {
    source: usize,
    parcels: Vec<Parcel>,
    not_after_ms: u64,
}

impl Reading {
    pub(crate) fn put_back(&mut self, by: Duration) {
        self.not_after_ms -= by.as_millis() as u64;
        self.parcels.iter_mut().for_each(|parcel| parcel.put_back(by));
    }
}

impl World {
    /// Takes note of what acks committed.
    pub(crate) fn owe(&mut self, claims: &[(Claim, Verdict)], words: &[Settled]) {
        for ((_, verdict), word) in claims.iter().zip(words) {
            let (Verdict::Finish(finish), Settled::Done) = (verdict, word) else { continue };
            let own = finish.follow_ups.iter().map(|follow_up| follow_up.id.clone()).filter(is_own);
            self.owed.extend(own);
        }
    }

    fn parcels(&self, source: usize) -> Vec<Vec<Parcel>> {
        let Side { fixture, model, .. } = &self.sides[source];
        let unpack =
            |(field, value): (&Vec<u8>, &Vec<u8>)| Parcel::unpack(&fixture.topic, field, value);
        model.outbox().iter().map(unpack).collect()
    }

    fn index_of(&self, parcel: &Parcel) -> usize {
        usize::from(self.sides[1].fixture.topic == parcel.follow_up.topic)
    }

    /// Relays all that a topic's outbox holds, as a runner does.
    pub(crate) async fn relay(&mut self, source: usize) -> Outcome {
        let entries = self.parcels(source);
        let Side { fixture, .. } = &self.sides[source];
        let relayed = fixture.queue.relay(&fixture.shard, &mut RelayPass::default()).await.unwrap();
        self.tell(format!("relay from {}\n    -> {relayed:?}", self.sides[source].fixture.topic));
        let now = self.sides.each_ref().map(|side| side.fixture.snapshot());
        let first = self.sides.iter().map(|side| side.last.now_us).min().unwrap();
        let instants = moments(first, now[1].now_us);
        let pushed_at = instants.iter().flat_map(|pushed| {
            instants
                .iter()
                .filter(move |freed| *freed >= pushed)
                .map(move |freed| (*pushed, *freed))
        });
        let pushed_at: Vec<(u64, u64)> = pushed_at.collect();
        let mut message = String::new();
        for order in orders(entries) {
            let parcels: Vec<&Parcel> = order.iter().flatten().collect();
            let counts = (relayed.entries, relayed.pushed, relayed.kept);
            match self.explain_relay(source, &parcels, &now, &pushed_at) {
                Ok((models, pushed)) => {
                    let kept = parcels.len() as u64 - pushed;
                    if counts == (order.len() as u64, pushed, kept) {
                        [self.sides[0].model, self.sides[1].model] = models;
                        return self.arrive(&parcels, now);
                    }
                    message = format!("the model pushes {pushed} and keeps {kept}");
                }
                Err(why) => message = why,
            }
        }
        Err(message)
    }

    /// The topics as these parcels leave them, and how many of them were pushed, if some moments
    /// explain what Redis holds now. Each topic is served at moments of its own.
    fn explain_relay(
        &self,
        source: usize,
        parcels: &[&Parcel],
        now: &[Snapshot; 2],
        moments: &[(u64, u64)],
    ) -> Result<([Model; 2], u64), String> {
        let mut models = self.sides.each_ref().map(|side| side.model.clone());
        models[source].empty_outbox();
        let mut pushed = 0;
        for (target, model) in models.iter_mut().enumerate() {
            let own = |parcel: &&Parcel| self.index_of(parcel) == target;
            let own: Vec<&Parcel> = parcels.iter().copied().filter(own).collect();
            let wanted = now[target].state();
            let serve = |(pushed_us, freed_us): &(u64, u64)| {
                let mut served = model.clone();
                if own.is_empty() {
                    return (served, Vec::new());
                }
                let words = served.take_in(&own, u64::MAX, *pushed_us).unwrap_or_default();
                served.let_marks_end(&own, *freed_us);
                (served, words)
            };
            let found = moments.iter().map(serve).find(|(served, _)| served.state == wanted);
            let Some((served, words)) = found else {
                let difference = serve(&moments[0]).0.state.difference(&wanted);
                return Err(format!("model | Redis{difference}"));
            };
            pushed += words.iter().filter(|word| **word == Word::Pushed).count() as u64;
            *model = served;
        }
        Ok((models, pushed))
    }

    /// Reads an outbox, and goes on later.
    pub(crate) fn read(&mut self, source: usize) {
        let parcels: Vec<Parcel> = self.parcels(source).into_iter().flatten().collect();
        let not_after_ms = self.sides[source].fixture.now_ms() + STALE.as_millis() as u64;
        self.tell(format!("read {parcels:?}"));
        self.reading = Some(Reading { source, parcels, not_after_ms });
    }

    /// Pushes the first entries that were read. A relay that came this far may delete the entries,
    /// and die before the marks are released.
    pub(crate) async fn push_read(&mut self, count: usize, deletes: bool) -> Outcome {
        let Some(reading) = self.reading.take() else { return Ok(()) };
        let all = count >= reading.parcels.len();
        let mut late = false;
        for target in 0..2 {
            let of_target = |parcel: &&Parcel| self.index_of(parcel) == target;
            let parcels: Vec<Parcel> =
                reading.parcels.iter().take(count).filter(of_target).cloned().collect();
            if !parcels.is_empty() {
                late |= !self.push_parcels(target, &parcels, reading.not_after_ms)?;
            }
        }
        if all && deletes && !late {
            let side = &mut self.sides[reading.source];
            for parcel in &reading.parcels {
                let field = String::from_utf8(parcel.entry.clone()).unwrap();
                side.fixture.on_key("HDEL", "outbox", &[&field]);
                side.model.state.outbox.remove(&parcel.entry);
            }
            side.last = side.fixture.snapshot();
        }
        Ok(())
    }

    /// False if it was too late.
    fn push_parcels(
        &mut self,
        target: usize,
        parcels: &[Parcel],
        not_after_ms: u64,
    ) -> Result<bool, String> {
        let parcels: Vec<&Parcel> = parcels.iter().collect();
        let words = Parcel::push_raw(&self.sides[target].fixture, &parcels, not_after_ms);
        self.tell(format!("push {parcels:?} not after {not_after_ms}\n    -> {words:?}"));
        let side = &self.sides[target];
        let now = side.fixture.snapshot();
        for instant in moments(side.last.now_us, now.now_us) {
            let mut next = side.model.clone();
            if next.take_in(&parcels, not_after_ms, instant) == words && next.state == now.state() {
                self.sides[target].model = next;
                let mut read = self.sides.each_ref().map(|side| side.last.clone());
                read[target] = now;
                self.arrive(&parcels, read)?;
                return Ok(words.is_some());
            }
        }
        Err(format!("the model does not say {words:?} {now:?}"))
    }

    /// Takes note of the follow-ups that have come, as Redis shows them.
    fn arrive(&mut self, parcels: &[&Parcel], now: [Snapshot; 2]) -> Outcome {
        for (target, now) in now.into_iter().enumerate() {
            let came = |id: &&Vec<u8>| !self.sides[target].last.jobs.contains_key(*id);
            let fresh: Vec<Vec<u8>> = now.jobs.keys().filter(came).cloned().collect();
            for id in fresh {
                let id = JobId::from_redis(id);
                let of_it = |parcel: &&&Parcel| {
                    parcel.follow_up.id == id
                        && now.jobs[id.as_bytes()] == parcel.follow_up.payload
                        && self.index_of(parcel) == target
                };
                let Some(parcel) = parcels.iter().find(of_it) else {
                    return Err(format!("{id} came from nowhere"));
                };
                if is_own(&id) && !self.came.insert(id.clone()) {
                    return Err(format!("the follow-up {id} was doubled"));
                }
                let follow_up = &parcel.follow_up;
                let (payload, due) = (&follow_up.payload, parcel.due_ms() as f64);
                let ledger = &mut self.sides[target].ledger;
                quietly(|| ledger.arrived(&id, payload, due, &follow_up.options))?;
            }
            self.sides[target].last = now;
            self.sides[target].check()?;
        }
        Ok(())
    }
}

/// True for an id that only one follow-up has.
fn is_own(id: &JobId) -> bool {
    id.as_bytes().starts_with(b"f")
}

/// Every order of a few entries.
fn orders(entries: Vec<Vec<Parcel>>) -> Vec<Vec<Vec<Parcel>>> {
    assert!(entries.len() <= ENTRIES_MAX, "{} entries have too many orders", entries.len());
    if entries.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..entries.len() {
        let mut rest = entries.clone();
        let first = rest.remove(at);
        all.extend(orders(rest).into_iter().map(|mut rest| {
            rest.insert(0, first.clone());
            rest
        }));
    }
    all
}
