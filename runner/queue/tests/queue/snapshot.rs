//! Everything that Redis holds of a topic, read at once, and the moving of its times.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use duebox_job::JobId;
use redis::Connection;

pub(crate) type Hash = BTreeMap<Vec<u8>, Vec<u8>>;
/// Scores as `f64`, the way Redis has them; infinite ones included.
pub(crate) type Zset = BTreeMap<Vec<u8>, f64>;

const HASHES: [&str; 7] =
    ["jobs", "opts", "attempts", "dead:jobs", "dead:opts", "dead:info", "meta"];
const ZSETS: [&str; 6] = ["pending", "ready", "unack", "retry", "dead", "holders"];
/// Zsets whose scores are µs; the others hold ms.
const IN_MICROS: [&str; 2] = ["unack", "holders"];

/// All keys of a topic.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) jobs: Hash,
    pub(crate) opts: Hash,
    pub(crate) attempts: Hash,
    pub(crate) dead_jobs: Hash,
    pub(crate) dead_opts: Hash,
    pub(crate) dead_info: Hash,
    pub(crate) meta: Hash,
    pub(crate) pending: Zset,
    pub(crate) ready: Zset,
    pub(crate) unack: Zset,
    pub(crate) retry: Zset,
    pub(crate) dead: Zset,
    pub(crate) holders: Zset,
    /// Redis' clock when it was read; the one field that is no part of the state.
    pub(crate) now_us: u64,
}

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
        let (hashes, zsets, time): (Vec<Hash>, Vec<Zset>, (u64, u64)) = {
            let values: Vec<redis::Value> = read.query(redis).unwrap();
            let mut values = values.into_iter();
            let hashes = values.by_ref().take(HASHES.len()).map(parse).collect();
            let zsets = values.by_ref().take(ZSETS.len()).map(parse).collect();
            (hashes, zsets, parse(values.next().unwrap()))
        };
        let [jobs, opts, attempts, dead_jobs, dead_opts, dead_info, meta] =
            hashes.try_into().unwrap();
        let [pending, ready, unack, retry, dead, holders] = zsets.try_into().unwrap();
        let now_us = time.0 * 1_000_000 + time.1;
        Self {
            jobs,
            opts,
            attempts,
            dead_jobs,
            dead_opts,
            dead_info,
            meta,
            pending,
            ready,
            unack,
            retry,
            dead,
            holders,
            now_us,
        }
    }

    /// Puts every time of a topic back by so much. Due times that are none stay what they are.
    pub(crate) fn shift(redis: &mut Connection, base: &str, by: Duration) {
        let mut shifted = Self::read(redis, base);
        shifted.put_back(by);
        let mut write = redis::pipe();
        write.atomic();
        for (name, scores) in ZSETS.into_iter().zip(shifted.zsets()) {
            for (id, score) in scores {
                write.cmd("ZADD").arg(format!("{base}{name}")).arg("XX").arg(*score).arg(id);
            }
        }
        if let Some(wake) = shifted.wake() {
            write.cmd("HSET").arg(format!("{base}meta")).arg("wake").arg(wake.to_string());
        }
        let () = write.exec(redis).unwrap();
    }

    /// The same in memory.
    pub(crate) fn put_back(&mut self, by: Duration) {
        let (ms, us) = (by.as_millis() as f64, by.as_micros() as f64);
        if let Some(wake) = self.wake() {
            self.set_wake(Some(wake - ms));
        }
        for (name, scores) in ZSETS.into_iter().zip(self.zsets()) {
            let in_micros = IN_MICROS.contains(&name);
            for score in scores.values_mut().filter(|score| in_micros || is_due(**score)) {
                *score -= if in_micros { us } else { ms };
            }
        }
    }

    fn zsets(&mut self) -> [&mut Zset; 6] {
        let Self { pending, ready, unack, retry, dead, holders, .. } = self;
        [pending, ready, unack, retry, dead, holders]
    }

    pub(crate) fn set_wake(&mut self, wake: Option<f64>) {
        match wake {
            Some(wake) => self.meta.insert(b"wake".to_vec(), wake.to_string().into_bytes()),
            None => self.meta.remove(b"wake".as_slice()),
        };
    }

    /// The due time that sleepers wait for.
    pub(crate) fn wake(&self) -> Option<f64> {
        let wake = self.meta.get(b"wake".as_slice())?;
        Some(std::str::from_utf8(wake).unwrap().parse().unwrap())
    }

    /// The state without the time at which it was read.
    pub(crate) fn state(&self) -> Self {
        Self { now_us: 0, ..self.clone() }
    }

    /// A field of a hash as text; empty if it is not there.
    pub(crate) fn text(hash: &Hash, id: &str) -> String {
        hash.get(id.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned()).unwrap_or_default()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = String::from_utf8_lossy;
        let Self { jobs, opts, attempts, dead_jobs, dead_opts, dead_info, meta, .. } = self;
        let hashes = [jobs, opts, attempts, dead_jobs, dead_opts, dead_info, meta];
        for (name, hash) in HASHES.into_iter().zip(hashes).filter(|(_, hash)| !hash.is_empty()) {
            write!(f, "\n  {name}:")?;
            for (field, value) in hash {
                write!(f, " {}={}", shown(field), shown(value))?;
            }
        }
        let Self { pending, ready, unack, retry, dead, holders, .. } = self;
        let zsets = [pending, ready, unack, retry, dead, holders];
        for (name, zset) in ZSETS.into_iter().zip(zsets).filter(|(_, zset)| !zset.is_empty()) {
            write!(f, "\n  {name}:")?;
            for (id, score) in zset {
                write!(f, " {}={score}", shown(id))?;
            }
        }
        Ok(())
    }
}

/// True for a score that is a time in ms, and not a due time that is none.
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
