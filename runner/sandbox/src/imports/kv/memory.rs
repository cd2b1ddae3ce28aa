//! A store that lives and dies with its process: for trial runs, and for tests of handlers. It keeps what
//! a real one would, within the same bounds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::TopicName;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};

use super::{BYTES_MAX, Condition, Entry, KEYS_MAX, KeyValue, KvError};

/// A store in memory, empty at first.
#[derive(Debug, Default)]
pub struct MemoryKv(Mutex<BTreeMap<String, Store>>);

/// What one topic keeps.
#[derive(Debug, Default)]
struct Store {
    kept: HashMap<Box<[u8]>, Kept>,
    /// Of all keys and values.
    bytes: usize,
    /// The last one given.
    revision: u64,
}

#[derive(Debug)]
struct Kept {
    entry: Entry,
    /// When its time is over; `None` if it never is.
    until: Option<Instant>,
}

impl MemoryKv {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn topics(&self) -> MutexGuard<'_, BTreeMap<String, Store>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one step on the store of a topic, which answers at once.
    fn step<'a, T: Send + 'a>(
        &self,
        topic: &TopicName,
        step: impl FnOnce(&mut Store, Instant) -> Result<T, KvError>,
    ) -> BoxFuture<'a, Result<T, KvError>> {
        let mut topics = self.topics();
        let store = topics.entry(topic.as_str().to_owned()).or_default();
        ready(step(store, Instant::now())).boxed()
    }
}

impl KeyValue for MemoryKv {
    fn get<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Entry>, KvError>> {
        self.step(topic, |store, now| Ok(store.living(key, now).map(|kept| kept.entry.clone())))
    }

    fn set<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
        condition: Condition,
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        self.step(topic, |store, now| {
            let revision = store.living(key, now).map(|kept| kept.entry.revision);
            let holds = match condition {
                Condition::Always => true,
                Condition::IfAbsent => revision.is_none(),
                Condition::IfRevision(wanted) => revision == Some(wanted),
            };
            if holds {
                let until = ttl.and_then(|ttl| now.checked_add(ttl));
                store.keep(key, value, until, now)?;
            }
            Ok(holds)
        })
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        self.step(topic, |store, now| {
            let living = store.living(key, now).is_some();
            store.forget(key);
            Ok(living)
        })
    }

    fn add<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>> {
        self.step(topic, |store, now| {
            let (number, until) = match store.living(key, now) {
                None => (0, None),
                Some(kept) => (number(&kept.entry.value)?, kept.until),
            };
            let sum = number.checked_add(delta).ok_or(KvError::NotANumber)?;
            store.keep(key, sum.to_string().into(), until, now)?;
            Ok(sum)
        })
    }
}

/// A number as it is written when it is kept: no plus, no leading zeros, no minus zero.
fn number(value: &[u8]) -> Result<i64, KvError> {
    let text = std::str::from_utf8(value).map_err(|_| KvError::NotANumber)?;
    let number: i64 = text.parse().map_err(|_| KvError::NotANumber)?;
    if number.to_string() == text { Ok(number) } else { Err(KvError::NotANumber) }
}

impl Store {
    /// What is under a key and whose time is not over.
    fn living(&self, key: &[u8], now: Instant) -> Option<&Kept> {
        self.kept.get(key).filter(|kept| kept.until.is_none_or(|until| now < until))
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(kept) = self.kept.remove(key) {
            self.bytes -= key.len() + kept.entry.value.len();
        }
    }

    /// Keeps a value if there is room for it; what is over makes room.
    fn keep(
        &mut self,
        key: &[u8],
        value: Bytes,
        until: Option<Instant>,
        now: Instant,
    ) -> Result<(), KvError> {
        if !self.has_room(key, &value) {
            self.sweep(now);
            if !self.has_room(key, &value) {
                return Err(KvError::Full);
            }
        }
        self.forget(key);
        self.bytes += key.len() + value.len();
        self.revision += 1;
        let entry = Entry { value, revision: self.revision };
        self.kept.insert(key.into(), Kept { entry, until });
        Ok(())
    }

    /// Whether the bounds are kept with this value in place of the one that is there.
    fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        let old = self.kept.get(key).map(|kept| key.len() + kept.entry.value.len());
        let keys = self.kept.len() + usize::from(old.is_none());
        let bytes = self.bytes - old.unwrap_or(0) + key.len() + value.len();
        keys <= KEYS_MAX && bytes <= BYTES_MAX
    }

    fn sweep(&mut self, now: Instant) {
        let bytes = &mut self.bytes;
        self.kept.retain(|key, kept| {
            let lives = kept.until.is_none_or(|until| now < until);
            if !lives {
                *bytes -= key.len() + kept.entry.value.len();
            }
            lives
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> TopicName {
        TopicName::new("a").unwrap()
    }

    #[tokio::test]
    async fn an_empty_store_takes_what_is_there_only_if_the_condition_holds() {
        let (kv, topic) = (MemoryKv::new(), topic());
        let set = async |value: &'static str, condition| {
            kv.set(&topic, b"k", value.into(), None, condition).await.unwrap()
        };
        assert_eq!(kv.get(&topic, b"k").await, Ok(None));
        assert!(!set("0", Condition::IfRevision(0)).await);
        assert!(set("1", Condition::IfAbsent).await);
        assert!(!set("2", Condition::IfAbsent).await);
        let first = kv.get(&topic, b"k").await.unwrap().unwrap();
        assert_eq!(first.value, "1");
        assert!(set("3", Condition::IfRevision(first.revision)).await);
        assert!(!set("4", Condition::IfRevision(first.revision)).await);
        assert!(set("5", Condition::Always).await);
        assert_eq!(kv.get(&topic.shard(3), b"k").await.unwrap().unwrap().value, "5");
        assert_eq!(kv.get(&TopicName::new("b").unwrap(), b"k").await, Ok(None));
        assert_eq!(
            (kv.delete(&topic, b"k").await, kv.delete(&topic, b"k").await),
            (Ok(true), Ok(false))
        );
        assert!(!set("6", Condition::IfRevision(first.revision)).await);
    }

    #[tokio::test]
    async fn a_number_is_added_to_within_its_range() {
        let (kv, topic) = (MemoryKv::new(), topic());
        assert_eq!(kv.add(&topic, b"n", 5).await, Ok(5));
        assert_eq!(kv.add(&topic, b"n", i64::MIN).await, Ok(i64::MIN + 5));
        assert_eq!(kv.add(&topic, b"n", -6).await, Err(KvError::NotANumber));
        for text in ["", "x", "+1", "01", "-0", " 1", "1.0", "9223372036854775808"] {
            kv.set(&topic, b"n", text.into(), None, Condition::Always).await.unwrap();
            assert_eq!(kv.add(&topic, b"n", 1).await, Err(KvError::NotANumber), "{text:?}");
        }
    }

    #[tokio::test]
    async fn the_bounds_of_a_topic_are_kept_and_what_is_over_makes_room() {
        let (kv, topic) = (MemoryKv::new(), topic());
        let value = Bytes::from(vec![0; (64 << 10) - 4]);
        let short = Some(Duration::from_millis(1));
        for key in 0..1024_u32 {
            let ttl = if key == 7 { short } else { None };
            let key = key.to_be_bytes();
            let wrote = kv.set(&topic, &key, value.clone(), ttl, Condition::Always).await;
            assert_eq!(wrote, Ok(true));
        }
        let over = Instant::now() + Duration::from_millis(2);
        while Instant::now() < over {
            std::hint::spin_loop();
        }
        let one = |key: &'static [u8]| kv.set(&topic, key, "".into(), None, Condition::Always);
        assert_eq!(kv.get(&topic, &7_u32.to_be_bytes()).await, Ok(None));
        assert_eq!(one(b"more").await, Ok(true));
        let full = kv.set(&topic, b"full", value.clone(), None, Condition::Always).await;
        assert_eq!(full, Err(KvError::Full));
        assert_eq!(kv.delete(&topic, &8_u32.to_be_bytes()).await, Ok(true));
        assert_eq!(kv.set(&topic, b"full", value, None, Condition::Always).await, Ok(true));
    }
}
