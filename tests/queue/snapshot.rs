//! Everything that Redis holds of a topic, read at once, and the moving of its times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use duebox_job::JobId;
use redis::Connection;

pub(crate) type Hash = BTreeMap<Vec<u8>, Vec<u8>>;
/// Scores as `f64`, the way Redis has them; infinite ones included.
pub(crate) type Zset = BTreeMap<Vec<u8>, f64>;

/// How far a priority puts a job before or behind the normal ones of `ready`.
pub(crate) const RANK: f64 = 2e14;

/// The keys of a topic: a field for each, and its name in Redis.
macro_rules! snapshot {
    (hashes [$($hash:ident $hash_name:literal)*] zsets [$($zset:ident $zset_name:literal)*]) => {
        /// All keys of a topic.
        #[derive(Clone, Default, PartialEq)]
        pub(crate) struct Snapshot {
            $(pub(crate) $hash: Hash,)*
            $(pub(crate) $zset: Zset,)*
            /// Redis' clock when it was read; the one field that is not part of the state.
            pub(crate) now_us: u64,
        }

        const HASHES: &[&str] = &[$($hash_name),*];
        const ZSETS: &[&str] = &[$($zset_name),*];

        impl Snapshot {
            fn hashes(&self) -> Vec<&Hash> {
                vec![$(&self.$hash),*]
            }

            fn hashes_mut(&mut self) -> Vec<&mut Hash> {
                vec![$(&mut self.$hash),*]
            }

            fn zsets(&self) -> Vec<&Zset> {
                vec![$(&self.$zset),*]
            }

            fn zsets_mut(&mut self) -> Vec<&mut Zset> {
                vec![$(&mut self.$zset),*]
            }
        }
    };
}

snapshot!(
    hashes [
        jobs "jobs" opts "opts" attempts "attempts" errors "errors" meta "meta"
        blocked_at "blocked:at" turns "turns" turns_of "turns:of"
        dead_jobs "dead:jobs" dead_opts "dead:opts" dead_info "dead:info"
        done_jobs "done:jobs" done_info "done:info" done_result "done:result"
        outbox "outbox" ticks "ticks" kv "kv" kv_rev "kv:rev"
        recordings "recordings"
    ]
    zsets [
        pending "pending" ready "ready" unack "unack" retry "retry" blocked "blocked"
        dead "dead" done "done" holders "holders" unique "unique" inbox "inbox"
        kv_at "kv:at" recordings_at "recordings:at"
    ]
);

impl Snapshot {
    pub(crate) fn read(redis: &mut Connection, base: &str) -> Self {
        let mut read = redis::pipe();
        read.atomic();
        for name in HASHES {
            read.cmd("HGETALL").arg(format!("{base}{name}"));
        }
        for name in ZSETS {
            read.cmd("ZRANGE").arg(format!("{base}{name}")).arg(0).arg(-1).arg("WITHSCORES");
        }
        read.cmd("TIME");
        let values: Vec<redis::Value> = read.query(redis).unwrap();
        let mut values = values.into_iter();
        let mut snapshot = Self::default();
        for hash in snapshot.hashes_mut() {
            *hash = parse(values.next().unwrap());
        }
        for zset in snapshot.zsets_mut() {
            *zset = parse(values.next().unwrap());
        }
        let (seconds, micros): (u64, u64) = parse(values.next().unwrap());
        snapshot.now_us = seconds * 1_000_000 + micros;
        snapshot
    }

    /// Moves every time of a topic into the past. Invalid due times stay as they are.
    pub(crate) fn shift(redis: &mut Connection, base: &str, by: Duration) {
        let before = Self::read(redis, base);
        let mut shifted = before.clone();
        shifted.put_back(by);
        let mut write = redis::pipe();
        write.atomic();
        let hashes = HASHES.iter().zip(before.hashes().into_iter().zip(shifted.hashes()));
        for (name, (_, hash)) in hashes.filter(|(_, (before, after))| before != after) {
            write.cmd("DEL").arg(format!("{base}{name}"));
            for (field, value) in hash {
                write.cmd("HSET").arg(format!("{base}{name}")).arg(field).arg(value);
            }
        }
        let zsets = ZSETS.iter().zip(before.zsets().into_iter().zip(shifted.zsets()));
        for (name, (_, zset)) in zsets.filter(|(_, (before, after))| before != after) {
            write.cmd("DEL").arg(format!("{base}{name}"));
            for (member, score) in zset {
                write.cmd("ZADD").arg(format!("{base}{name}")).arg(*score).arg(member);
            }
        }
        let () = write.exec(redis).unwrap();
    }

    /// The same in memory.
    pub(crate) fn put_back(&mut self, by: Duration) {
        let (ms, us) = (by.as_millis() as f64, by.as_micros() as f64);
        let Self { pending, retry, dead, done, unique, inbox, kv_at, .. } = self;
        for scores in [pending, retry, dead, done, unique, inbox, kv_at] {
            scores.values_mut().filter(|score| is_due(**score)).for_each(|score| *score -= ms);
        }
        let ranked = |score: &f64| [0.0, -RANK, RANK].iter().any(|rank| is_due(score - rank));
        self.ready.values_mut().filter(|score| ranked(score)).for_each(|score| *score -= ms);
        for scores in [&mut self.unack, &mut self.holders] {
            scores.values_mut().for_each(|score| *score -= us);
        }
        let holders = std::mem::take(&mut self.holders).into_iter();
        self.holders = holders.map(|(name, token)| (noted_at(name, token), token)).collect();
        for (field, by) in [("wake", ms), ("tat", us)] {
            if let Some(time) = self.number(field) {
                self.set_number(field, Some(time - by));
            }
        }
        for (field, time) in &mut self.ticks {
            if !field.ends_with(b":line") {
                *time = (text(time) - ms).to_string().into();
            }
        }
        let first_number = [&mut self.turns_of, &mut self.outbox];
        for value in first_number.into_iter().flat_map(BTreeMap::values_mut) {
            let space = value.iter().position(|byte| *byte == b' ').unwrap();
            let time = (text(&value[..space]) - ms).to_string();
            value.splice(..space, time.into_bytes());
        }
        for (id, member) in &mut self.blocked_at {
            let mut place = Place::of(member);
            place.due -= ms;
            *member = place.member(id);
        }
        self.blocked = self.blocked_at.values().map(|member| (member.clone(), 0.0)).collect();
    }

    /// A number among the fields of `meta`.
    pub(crate) fn number(&self, field: &str) -> Option<f64> {
        self.meta.get(field.as_bytes()).map(|value| text(value))
    }

    pub(crate) fn set_number(&mut self, field: &str, value: Option<f64>) {
        match value {
            Some(value) => {
                self.meta.insert(field.as_bytes().to_vec(), value.to_string().into_bytes())
            }
            None => self.meta.remove(field.as_bytes()),
        };
    }

    /// The due time that sleepers wait for.
    pub(crate) fn wake(&self) -> Option<f64> {
        self.number("wake")
    }

    /// The state without the time at which it was read.
    pub(crate) fn state(&self) -> Self {
        Self { now_us: 0, ..self.clone() }
    }

    /// A field of a hash as text; empty if it is not there.
    pub(crate) fn text(hash: &Hash, id: &str) -> String {
        hash.get(id.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned()).unwrap_or_default()
    }

    /// The keys that hold something, by their names.
    pub(crate) fn held(&self) -> Vec<&'static str> {
        let hashes = HASHES.iter().zip(self.hashes()).filter(|(_, hash)| !hash.is_empty());
        let zsets = ZSETS.iter().zip(self.zsets()).filter(|(_, zset)| !zset.is_empty());
        hashes.map(|(name, _)| *name).chain(zsets.map(|(name, _)| *name)).collect()
    }

    /// Where this state and another one differ, a key a line.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let mut difference = String::new();
        for (name, (ours, theirs)) in
            HASHES.iter().zip(self.hashes().into_iter().zip(other.hashes()))
        {
            if ours != theirs {
                difference += &format!("\n  {name}: {}  |  {}", show_hash(ours), show_hash(theirs));
            }
        }
        for (name, (ours, theirs)) in ZSETS.iter().zip(self.zsets().into_iter().zip(other.zsets()))
        {
            if ours != theirs {
                difference += &format!("\n  {name}: {}  |  {}", show_zset(ours), show_zset(theirs));
            }
        }
        difference
    }
}

/// A job's place in the line of its key, as its member of `blocked` tells it.
pub(crate) struct Place {
    pub(crate) key: Vec<u8>,
    pub(crate) due: f64,
    pub(crate) seq: f64,
}

impl Place {
    pub(crate) fn of(member: &[u8]) -> Self {
        let mut parts = member.splitn(4, |byte| *byte == 0);
        let mut part = || parts.next().unwrap();
        Self { key: part().to_vec(), due: text(part()), seq: text(part()) }
    }

    pub(crate) fn id_of(member: &[u8]) -> Vec<u8> {
        member.splitn(4, |byte| *byte == 0).nth(3).unwrap().to_vec()
    }

    pub(crate) fn member(&self, id: &[u8]) -> Vec<u8> {
        let Self { key, due, seq } = self;
        let mut member = key.clone();
        member.extend(format!("\0{due:015.0}\0{seq:016.0}\0").bytes());
        member.extend(id);
        member
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, hash) in HASHES.iter().zip(self.hashes()).filter(|(_, hash)| !hash.is_empty()) {
            write!(f, "\n  {name}: {}", show_hash(hash))?;
        }
        for (name, zset) in ZSETS.iter().zip(self.zsets()).filter(|(_, zset)| !zset.is_empty()) {
            write!(f, "\n  {name}: {}", show_zset(zset))?;
        }
        Ok(())
    }
}

fn show_hash(hash: &Hash) -> String {
    let field = |(field, value): (&Vec<u8>, &Vec<u8>)| format!("{}={}", shown(field), shown(value));
    hash.iter().map(field).collect::<Vec<_>>().join(" ")
}

fn show_zset(zset: &Zset) -> String {
    let entry = |(member, score): (&Vec<u8>, &f64)| format!("{}={score}", shown(member));
    zset.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "/")
}

/// A number as Redis holds it.
pub(crate) fn text(number: &[u8]) -> f64 {
    std::str::from_utf8(number).unwrap().parse().unwrap()
}

/// The name in `holders` at this token: an extension's name ends with it, a lease call's does not.
fn noted_at(name: Vec<u8>, token: f64) -> Vec<u8> {
    match name.windows(2).position(|part| part == b":+") {
        Some(at) => [&name[..at], format!(":+{token}").as_bytes()].concat(),
        None => name,
    }
}

/// True for a score that is a time in ms, and not an invalid due time.
fn is_due(score: f64) -> bool {
    (1e11..=1e14).contains(&score)
}

fn parse<T: redis::FromRedisValue>(value: redis::Value) -> T {
    redis::from_redis_value(value).unwrap()
}

/// The ids of a hash or a zset, in their order as bytes.
pub(crate) fn ids<V>(of: &BTreeMap<Vec<u8>, V>) -> Vec<String> {
    of.keys().map(|id| String::from_utf8_lossy(id).into_owned()).collect()
}

/// The ids that have left a zset.
pub(crate) fn gone(before: &Zset, after: &Zset) -> Vec<JobId> {
    let left = before.keys().filter(|id| !after.contains_key(*id));
    left.map(|id| JobId::from_redis(id.clone())).collect()
}
