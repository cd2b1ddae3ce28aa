//! Gives every verb of the queue arbitrary replies of Redis: the first word of the input names the
//! verb, the others are the replies. A verb returns a value or an error; an error is short.
//! What a reply leases can be settled.
#![no_main]

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use duebox_fuzz::fake_redis::FakeRedis;
use duebox_queue::{
    Checkup, DeadQuery, Due, EventId, Finish, IfExists, JobId, KeyScan, KvCondition, Lease,
    LeaseCall, Leased, Limits, NewJob, PageQuery, Promotion, PullOptions, Queue, QueueError,
    ReclaimRule, RelayPass, RetentionLimits, Tick, Token, TopicName, Turn, Verdict,
};
use libfuzzer_sys::fuzz_target;

/// The longest error, in bytes. It may quote a reply.
const ERROR_MAX: usize = 16 << 10;

static QUEUE: LazyLock<Queue> = LazyLock::new(|| FakeRedis::get().connect());

/// What a verb does, as the seeds name it.
const VERBS: [&str; 27] = [
    "turn",
    "pull",
    "push",
    "get",
    "list",
    "dead",
    "done",
    "depths",
    "peek",
    "relay",
    "events",
    "runners",
    "tick",
    "schedules",
    "doctor",
    "topics",
    "requeue",
    "prune",
    "tidy",
    "store",
    "settle",
    "extend",
    "leased",
    "cancel",
    "shards",
    "scan",
    "matching",
];

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(u8::is_ascii_whitespace).unwrap_or(input.len());
    let (word, replies) = input.split_at(end);
    let named = VERBS.iter().find(|verb| verb.as_bytes() == word);
    let verb =
        named.unwrap_or(&VERBS[word.first().map_or(0, |byte| usize::from(*byte)) % VERBS.len()]);
    let redis = FakeRedis::get();
    redis.answer_with(replies);
    LazyLock::force(&QUEUE);
    let ended = redis.runtime.block_on(async { call(&Fixture::new(), verb).await });
    if let Err(error) = ended {
        let text = error.to_string();
        assert!(text.len() <= ERROR_MAX, "an error of {} bytes", text.len());
    }
});

/// The arguments of the verbs. Each input has a topic of its own, because shards are cached.
struct Fixture {
    topic: TopicName,
    id: JobId,
    ids: [JobId; 2],
    token: Token,
}

impl Fixture {
    fn new() -> Self {
        static INPUTS: AtomicU64 = AtomicU64::new(0);
        let number = INPUTS.fetch_add(1, Ordering::Relaxed);
        let id = |text: &str| JobId::new(text).expect("an id");
        Self {
            topic: TopicName::new(&format!("t{number}")).expect("a topic"),
            id: id("1"),
            ids: [id("1"), id("2")],
            token: Token::expiring_at_us(1_763_740_800_000_123),
        }
    }
}

async fn call(of: &Fixture, verb: &str) -> Result<(), QueueError> {
    let Fixture { topic, id, ids, token } = of;
    let shard = topic.first_shard();
    match verb {
        "turn" => turn(of).await?,
        "pull" => {
            let wait = Duration::ZERO;
            let options = PullOptions::new("worker", 10, Duration::from_secs(15), wait);
            let pulled = QUEUE.pull(topic, &options.expect("options")).await?;
            settle(topic, pulled.leases).await?;
        }
        "push" => {
            let jobs = ids.clone().map(|id| NewJob::new(id, "payload"));
            drop(QUEUE.push(topic, &jobs, IfExists::Reject).await?);
            QUEUE.reschedule(topic, id, Due::Now).await?;
        }
        "get" => {
            // The page and the CLI show it as JSON.
            let job = QUEUE.get(topic, id).await?;
            serde_json::to_string(&job.map(|job| format!("{job:?}"))).expect("JSON");
        }
        "list" => drop(QUEUE.list_live(topic, 100).await?),
        "dead" => {
            let page = QUEUE.list_dead(topic, &DeadQuery::default()).await?;
            serde_json::to_string(&page.jobs).expect("JSON");
        }
        "done" => {
            let page = QUEUE.list_done(topic, &PageQuery::default()).await?;
            serde_json::to_string(&page.jobs).expect("JSON");
        }
        "depths" => drop(QUEUE.depths(std::slice::from_ref(topic)).await?),
        "peek" => drop(QUEUE.peek(&[shard]).await?),
        "relay" => drop(QUEUE.relay(&shard, &mut RelayPass::default()).await?),
        "events" => {
            let page = QUEUE.events_after(EventId::default(), 100).await?;
            for event in &page.events {
                let id = event.id.to_string();
                assert_eq!(id.parse::<EventId>().ok(), Some(event.id), "{id}");
            }
            QUEUE.last_event().await?;
        }
        "settle" => {
            let verdict = Verdict::Release { delay: Duration::ZERO };
            QUEUE.settle_one(topic, id, token, verdict).await?;
        }
        "extend" => {
            drop(QUEUE.extend_one(topic, "worker", id, token, Duration::from_secs(1)).await?)
        }
        "leased" => drop(QUEUE.leased_job(topic, id).await?),
        _ => operate(of, verb).await?,
    }
    Ok(())
}

/// The calls of a daemon's loops and of operators.
async fn operate(of: &Fixture, verb: &str) -> Result<(), QueueError> {
    let Fixture { topic, ids, .. } = of;
    let shard = topic.first_shard();
    match verb {
        "runners" => {
            drop(QUEUE.statuses().await?);
            drop(QUEUE.control_replies("1").await?);
        }
        "tick" => {
            let tick = Tick {
                schedule: "nightly",
                line: "0 3 * * *",
                expected: Some(1_763_740_800_000),
                until: 1_763_740_860_000,
                payload: b"{}",
                times: &[1_763_740_860_000],
            };
            drop(QUEUE.tick(topic, &tick).await?);
        }
        "schedules" => {
            drop(QUEUE.schedule_states(&[(topic.clone(), "nightly".to_owned())]).await?);
        }
        "doctor" => {
            drop(QUEUE.examine(&shard, Checkup::REPAIR, &mut |_| {}).await?);
        }
        "topics" => {
            drop(QUEUE.topics().await?);
            drop(QUEUE.examine_topics(true, |_| false, &mut |_| {}).await?);
        }
        "requeue" => drop(QUEUE.requeue(topic, ids).await?),
        "matching" => drop(QUEUE.requeue_matching(topic, &DeadQuery::default()).await?),
        "prune" => {
            QUEUE.prune(topic, ids).await?;
            QUEUE.purge_matching(topic, &DeadQuery::default()).await?;
        }
        "tidy" => {
            let day = Duration::from_secs(86_400);
            let limits =
                RetentionLimits { dead_for: day, dead_most: 1, done_for: day, done_most: 1 };
            drop(QUEUE.prune_ended_all(&[(shard.clone(), Some(limits))]).await?);
            QUEUE.prune_records(&shard).await?;
            QUEUE.kv_prune(topic).await?;
        }
        "store" => {
            drop(QUEUE.kv_get(topic, b"name").await?);
            QUEUE.kv_set(topic, b"name", b"value", None, KvCondition::Always).await?;
            QUEUE.kv_add(topic, b"name", 1).await?;
        }
        "cancel" => drop(QUEUE.cancel_many(topic, ids).await?),
        "shards" => {
            QUEUE.configure(topic, &Limits::default()).await?;
            QUEUE.forget_old_shards(topic).await?;
        }
        _ => drop(QUEUE.scan_pending(&mut KeyScan::default()).await?),
    }
    Ok(())
}

/// A whole turn of a worker: every part that reads a reply.
async fn turn(of: &Fixture) -> Result<(), QueueError> {
    let call = LeaseCall::new(10, Duration::from_secs(15), "runner:1");
    let turn = Turn {
        holder: "runner",
        reclaim: Some(ReclaimRule {
            max_crashes: std::num::NonZero::new(3),
            delay: Duration::ZERO,
            info: None,
            renewed_within: Duration::ZERO,
        }),
        promote: Some(Promotion { jobs: 10, skip: 0, discards_bad: true }),
        lease: Some(&call),
        ..Turn::default()
    };
    let reply = QUEUE.turn(&of.topic.first_shard(), &turn).await?;
    if let Some(Leased::Jobs(jobs)) = reply.leased {
        settle(&of.topic, jobs.leases).await?;
    }
    Ok(())
}

/// Settles leases, as a worker would.
async fn settle(topic: &TopicName, leases: Vec<Lease>) -> Result<(), QueueError> {
    let verdicts = [
        Verdict::Ack,
        Verdict::Finish(Finish {
            result: Some(Bytes::from_static(b"result")),
            ..Finish::default()
        }),
        Verdict::Release { delay: Duration::ZERO },
        Verdict::nack(Duration::from_secs(1), 3, "why"),
    ];
    let leases = leases.into_iter().zip(verdicts.into_iter().cycle());
    let settlements: Vec<_> = leases.map(|(lease, verdict)| lease.settle(verdict)).collect();
    QUEUE.settle(topic, &settlements).await.map(drop)
}
