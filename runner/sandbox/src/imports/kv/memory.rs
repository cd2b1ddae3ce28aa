//! A store in the memory of this process, for trial runs and for tests of handlers. It enforces the same
//! limits as the real store.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::TopicName;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use parking_lot::Mutex;

use super::store::{KV_BYTES_MAX, KV_KEYS_MAX, KeyValue, KvCondition, KvEntry, KvError};

/// A store in memory, initially empty.
#[derive(Debug, Default)]
pub struct MemoryKv(Mutex<BTreeMap<String, TopicStore>>);

/// The values of one topic.
#[derive(Debug, Default)]
struct TopicStore {
    values: HashMap<Box<[u8]>, StoredValue>,
    /// Bytes of all keys and values.
    bytes: usize,
    /// The last revision.
    revision: u64,
}

#[derive(Debug)]
struct StoredValue {
    entry: KvEntry,
    /// When the value expires, if it does.
    expires_at: Option<Instant>,
}

impl MemoryKv {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The values of a topic that have not expired.
    pub fn contents(&self, topic: &TopicName) -> BTreeMap<Vec<u8>, Bytes> {
        let topics = self.0.lock();
        let now = Instant::now();
        let values = topics.get(topic.as_str()).into_iter().flat_map(|store| &store.values);
        let live = values.filter(|(_, value)| value.is_live(now));
        live.map(|(key, value)| (key.to_vec(), value.entry.value.clone())).collect()
    }

    /// Runs one operation on the store of a topic. The future is ready at once.
    fn run<'a, T: Send + 'a>(
        &self,
        topic: &TopicName,
        operation: impl FnOnce(&mut TopicStore, Instant) -> Result<T, KvError>,
    ) -> BoxFuture<'a, Result<T, KvError>> {
        let mut topics = self.0.lock();
        let store = topics.entry(topic.as_str().to_owned()).or_default();
        ready(operation(store, Instant::now())).boxed()
    }
}

impl KeyValue for MemoryKv {
    fn get<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<KvEntry>, KvError>> {
        self.run(topic, |store, now| Ok(store.live(key, now).map(|value| value.entry.clone())))
    }

    fn set<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        self.run(topic, |store, now| {
            let revision = store.live(key, now).map(|value| value.entry.revision);
            let is_met = match condition {
                KvCondition::Always => true,
                KvCondition::IfAbsent => revision.is_none(),
                KvCondition::IfRevision(wanted) => revision == Some(wanted),
            };
            if is_met {
                let expires_at = ttl.and_then(|ttl| now.checked_add(ttl));
                store.insert(key, value, expires_at, now)?;
            }
            Ok(is_met)
        })
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        self.run(topic, |store, now| {
            let existed = store.live(key, now).is_some();
            store.remove(key);
            Ok(existed)
        })
    }

    fn add<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>> {
        self.run(topic, |store, now| {
            let (number, expires_at) = match store.live(key, now) {
                None => (0, None),
                Some(value) => (number(&value.entry.value)?, value.expires_at),
            };
            let sum = number.checked_add(delta).ok_or(KvError::NotANumber)?;
            store.insert(key, sum.to_string().into(), expires_at, now)?;
            Ok(sum)
        })
    }
}

/// Parses a number in the form in which `add` stores it: without plus, leading zeros or minus zero.
fn number(value: &[u8]) -> Result<i64, KvError> {
    let text = std::str::from_utf8(value).map_err(|_| KvError::NotANumber)?;
    let number: i64 = text.parse().map_err(|_| KvError::NotANumber)?;
    if number.to_string() == text { Ok(number) } else { Err(KvError::NotANumber) }
}

impl TopicStore {
    /// The value of a key, if it has not expired.
    fn live(&self, key: &[u8], now: Instant) -> Option<&StoredValue> {
        self.values.get(key).filter(|value| value.is_live(now))
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(value) = self.values.remove(key) {
            self.bytes -= key.len() + value.entry.value.len();
        }
    }

    /// Inserts a value if the limits allow it. Removes expired values if they do not.
    fn insert(
        &mut self,
        key: &[u8],
        value: Bytes,
        expires_at: Option<Instant>,
        now: Instant,
    ) -> Result<(), KvError> {
        if !self.has_room(key, &value) {
            self.remove_expired(now);
            if !self.has_room(key, &value) {
                return Err(KvError::Full);
            }
        }
        self.remove(key);
        self.bytes += key.len() + value.len();
        self.revision += 1;
        let entry = KvEntry { value, revision: self.revision };
        self.values.insert(key.into(), StoredValue { entry, expires_at });
        Ok(())
    }

    /// Whether the limits hold after this value replaces the current one.
    fn has_room(&self, key: &[u8], value: &[u8]) -> bool {
        let old = self.values.get(key).map(|value| key.len() + value.entry.value.len());
        let keys = self.values.len() + usize::from(old.is_none());
        let bytes = self.bytes - old.unwrap_or(0) + key.len() + value.len();
        keys <= KV_KEYS_MAX && bytes <= KV_BYTES_MAX
    }

    fn remove_expired(&mut self, now: Instant) {
        let bytes = &mut self.bytes;
        self.values.retain(|key, value| {
            let is_live = value.is_live(now);
            if !is_live {
                *bytes -= key.len() + value.entry.value.len();
            }
            is_live
        });
    }
}

impl StoredValue {
    fn is_live(&self, now: Instant) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic() -> TopicName {
        TopicName::new("a").unwrap()
    }

    #[tokio::test]
    async fn a_value_is_written_only_if_the_condition_is_true() {
        let (kv, topic) = (MemoryKv::new(), topic());
        let set = async |value: &'static str, condition| {
            kv.set(&topic, b"k", value.into(), None, condition).await.unwrap()
        };
        assert_eq!(kv.get(&topic, b"k").await, Ok(None));
        assert!(!set("0", KvCondition::IfRevision(0)).await);
        assert!(set("1", KvCondition::IfAbsent).await);
        assert!(!set("2", KvCondition::IfAbsent).await);
        let first = kv.get(&topic, b"k").await.unwrap().unwrap();
        assert_eq!(first.value, "1");
        assert!(set("3", KvCondition::IfRevision(first.revision)).await);
        assert!(!set("4", KvCondition::IfRevision(first.revision)).await);
        assert!(set("5", KvCondition::Always).await);
        assert_eq!(kv.get(&topic, b"k").await.unwrap().unwrap().value, "5");
        assert_eq!(kv.get(&TopicName::new("b").unwrap(), b"k").await, Ok(None));
        assert_eq!(
            (kv.delete(&topic, b"k").await, kv.delete(&topic, b"k").await),
            (Ok(true), Ok(false))
        );
        assert!(!set("6", KvCondition::IfRevision(first.revision)).await);
    }

    #[tokio::test]
    async fn a_sum_stays_within_64_bits() {
        let (kv, topic) = (MemoryKv::new(), topic());
        assert_eq!(kv.add(&topic, b"n", 5).await, Ok(5));
        assert_eq!(kv.add(&topic, b"n", i64::MIN).await, Ok(i64::MIN + 5));
        assert_eq!(kv.add(&topic, b"n", -6).await, Err(KvError::NotANumber));
        for text in ["", "x", "+1", "01", "-0", " 1", "1.0", "9223372036854775808"] {
            kv.set(&topic, b"n", text.into(), None, KvCondition::Always).await.unwrap();
            assert_eq!(kv.add(&topic, b"n", 1).await, Err(KvError::NotANumber), "{text:?}");
        }
    }

    #[tokio::test]
    async fn the_limits_of_a_topic_hold_and_expired_values_make_room() {
        let (kv, topic) = (MemoryKv::new(), topic());
        let value = Bytes::from(vec![0; (64 << 10) - 4]);
        let short = Some(Duration::from_millis(1));
        for key in 0..1024_u32 {
            let ttl = if key == 7 { short } else { None };
            let key = key.to_be_bytes();
            let wrote = kv.set(&topic, &key, value.clone(), ttl, KvCondition::Always).await;
            assert_eq!(wrote, Ok(true));
        }
        let expired = Instant::now() + Duration::from_millis(2);
        while Instant::now() < expired {
            std::hint::spin_loop();
        }
        let one = |key: &'static [u8]| kv.set(&topic, key, "".into(), None, KvCondition::Always);
        assert_eq!(kv.get(&topic, &7_u32.to_be_bytes()).await, Ok(None));
        assert_eq!(one(b"more").await, Ok(true));
        let full = kv.set(&topic, b"full", value.clone(), None, KvCondition::Always).await;
        assert_eq!(full, Err(KvError::Full));
        assert_eq!(kv.delete(&topic, &8_u32.to_be_bytes()).await, Ok(true));
        assert_eq!(kv.set(&topic, b"full", value, None, KvCondition::Always).await, Ok(true));
    }
}
