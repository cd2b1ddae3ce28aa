//! The load of a row: producers over HTTP and with plain commands, and pull consumers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use parking_lot::RwLock;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinHandle;

use crate::asker::Asker;
use crate::ledger::{Answer, Ledger, Name};
use crate::plan::{KEYED, PULLED, Plan, WORK};

/// Producers that push at the same time.
const PRODUCERS: usize = 3;
/// Keys of each producer. It alone pushes them, so that the order of pushes is known.
const KEYS: u32 = 4;
/// Consumers of the pull topic.
const CONSUMERS: usize = 2;
/// The longest wait for an answer of a daemon.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The HTTP addresses of the daemons that run.
pub(crate) type Addresses = Arc<RwLock<Vec<SocketAddr>>>;

/// The address of one of the daemons.
pub(crate) fn any(addresses: &Addresses) -> Option<SocketAddr> {
    fastrand::choice(addresses.read().iter().copied())
}

/// What producers and consumers share.
#[derive(Clone)]
struct Shared {
    ledger: Arc<Ledger>,
    addresses: Addresses,
    redis: redis::Client,
    client: Client,
    are_producers_over: Arc<AtomicBool>,
    are_consumers_over: Arc<AtomicBool>,
}

/// The running load.
pub(crate) struct Load {
    shared: Shared,
    runtime: Handle,
    producers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
    /// Asks for the fate of pushes without an answer.
    asker: Option<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(
        runtime: &Handle,
        ledger: &Arc<Ledger>,
        addresses: &Addresses,
        redis_url: &str,
        rng: &mut Rng,
    ) -> anyhow::Result<Self> {
        let shared = Shared {
            ledger: Arc::clone(ledger),
            addresses: Arc::clone(addresses),
            redis: redis::Client::open(redis_url)?,
            client: Client::builder().timeout(ANSWER_MAX).build()?,
            are_producers_over: Arc::default(),
            are_consumers_over: Arc::default(),
        };
        let (unknown, asked) = mpsc::unbounded_channel();
        let producers = (0..PRODUCERS).map(|number| {
            let (shared, rng, unknown) = (shared.clone(), rng.fork(), unknown.clone());
            runtime.spawn(async move { shared.produce(number, rng, &unknown).await })
        });
        let producers = producers.collect();
        // The producers hold the others: with the last one the asker ends.
        drop(unknown);
        let consumers = (0..CONSUMERS).map(|number| {
            let shared = shared.clone();
            runtime.spawn(async move { shared.consume(number).await })
        });
        let consumers = consumers.collect();
        let asker = Asker {
            ledger: Arc::clone(ledger),
            addresses: Arc::clone(addresses),
            client: shared.client.clone(),
        };
        let asker = Some(runtime.spawn(asker.run(asked)));
        Ok(Self { shared, runtime: runtime.clone(), producers, consumers, asker })
    }

    /// Ends the producers; each has recorded its last push, and what became of it.
    pub(crate) fn end_producers(&mut self) {
        self.shared.are_producers_over.store(true, Ordering::Relaxed);
        for task in self.producers.drain(..).chain(self.asker.take()) {
            drop(self.runtime.block_on(task));
        }
    }

    /// Ends the consumers.
    pub(crate) fn end_consumers(&mut self) {
        self.shared.are_consumers_over.store(true, Ordering::Relaxed);
        for task in self.consumers.drain(..) {
            drop(self.runtime.block_on(task));
        }
    }
}

impl Shared {
    async fn produce(&self, number: usize, mut rng: Rng, unknown: &UnboundedSender<Name>) {
        for job in 0_u64.. {
            if self.are_producers_over.load(Ordering::Relaxed) {
                return;
            }
            let (name, answer) = match rng.u32(..100) {
                0..15 => {
                    let key = format!("key{}", number as u32 * KEYS + rng.u32(..KEYS));
                    let name = Name::new(KEYED, &format!("{key}.{number}-{job}"));
                    self.push(name, json!({ "key": key })).await
                }
                15..25 => {
                    self.push(Name::new(PULLED, &format!("ack.{number}-{job}")), json!({})).await
                }
                25..30 => self.push_plain(Name::new(WORK, &format!("ack.{number}-{job}"))).await,
                _ => {
                    let id = format!("{}.{number}-{job}", Plan::draw(&mut rng));
                    self.push(Name::new(WORK, &id), json!({})).await
                }
            };
            if answer == Answer::Unknown {
                // The asker ends after the producers.
                drop(unknown.send(name));
            }
            tokio::time::sleep(Duration::from_millis(rng.u64(4..16))).await;
        }
    }

    /// Pushes over HTTP.
    async fn push(&self, name: Name, options: Value) -> (Name, Answer) {
        let Some(address) = any(&self.addresses) else { return (name, Answer::Failed) };
        let url = format!("http://{address}/v1/topics/{}/jobs", name.topic);
        let body = json!({ "id": name.id, "payload": "{}", "options": options });
        let sent = Instant::now();
        let answer = self.client.post(url).header("content-type", "application/json");
        let answer = meaning(answer.body(body.to_string()).send().await);
        self.ledger.pushed(name.clone(), answer, sent);
        (name, answer)
    }

    /// Pushes as a plain producer does.
    async fn push_plain(&self, name: Name) -> (Name, Answer) {
        let sent = Instant::now();
        let (client, key) =
            (self.redis.clone(), |part| format!("duebox:{{{}}}:{part}", name.topic));
        let mut commands = redis::pipe();
        commands.atomic();
        commands.hset(key("jobs"), &name.id, "{}").ignore();
        commands.zadd(key("pending"), &name.id, 0).ignore();
        let push = async move {
            let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
                return Answer::Failed;
            };
            match commands.query_async::<()>(&mut connection).await {
                Ok(()) => Answer::Ok,
                // A transaction that Redis refuses is refused whole.
                Err(error) if error.code().is_some() => Answer::Failed,
                Err(_) => Answer::Unknown,
            }
        };
        let answer = tokio::time::timeout(ANSWER_MAX, push).await.unwrap_or(Answer::Unknown);
        self.ledger.pushed(name.clone(), answer, sent);
        (name, answer)
    }

    async fn consume(&self, number: usize) {
        while !self.are_consumers_over.load(Ordering::Relaxed) {
            let pulled = match any(&self.addresses) {
                Some(address) => self.pull(address, number).await.unwrap_or_default(),
                None => Vec::new(),
            };
            if pulled.is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for job in pulled {
                self.work(&job).await;
            }
        }
    }

    async fn pull(&self, address: SocketAddr, number: usize) -> Option<Vec<Value>> {
        let query = format!("max=4&wait=300ms&lease=3s&consumer=consumer-{number}");
        let url = format!("http://{address}/v1/topics/{PULLED}/leases?{query}");
        let text = self.client.post(url).send().await.ok()?.text().await.ok()?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        answer["jobs"].as_array().cloned()
    }

    /// Works on a pulled job and acks it, again as long as the answer is missing.
    async fn work(&self, job: &Value) {
        let (Some(id), attempt) = (job["id"].as_str(), job["attempt"].as_u64().unwrap_or(0)) else {
            return;
        };
        let run = self.ledger.begins(Name::new(PULLED, id), attempt as u32, "consumer", None);
        tokio::time::sleep(Duration::from_millis(2)).await;
        for _ in 0..5 {
            let Some(address) = any(&self.addresses) else { break };
            let url = format!("http://{address}/v1/topics/{PULLED}/jobs/{id}/ack");
            let body = json!({ "token": job["token"] }).to_string();
            let ack = self.client.post(url).header("content-type", "application/json").body(body);
            match meaning(ack.send().await) {
                Answer::Ok => return self.ledger.answers(run),
                Answer::Failed => break,
                Answer::Unknown => self.ledger.is_uncertain(run),
            }
        }
        self.ledger.closes(run);
    }
}

/// The meaning of an answer over HTTP.
fn meaning(answer: reqwest::Result<Response>) -> Answer {
    match answer.map(|response| response.status()) {
        Ok(StatusCode::OK | StatusCode::CREATED) => Answer::Ok,
        Ok(status) if status.is_client_error() => Answer::Failed,
        Err(error) if error.is_connect() => Answer::Failed,
        // 503 means that Redis refused it, or did not answer.
        Ok(_) | Err(_) => Answer::Unknown,
    }
}
