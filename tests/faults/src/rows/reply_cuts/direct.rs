//! Verbs that a daemon sends rarely, or only for an operator. The row calls them as a daemon does, through the library
//! and over a connection that is cut, and looks at the result over one that is not.

use std::num::NonZero;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use duebox_harness::RedisServer;
use duebox_queue::{
    Checkup, ConnectionSettings, Due, Finding, Finish, FollowUp, FollowUpDue, IfExists, JobId,
    JobQuery, JobState, KvCondition, Limits, NewJob, Options, PullOptions, Queue, QueueError,
    RelayPass, RetentionLimits, TopicName, Verdict,
};
use tokio::runtime::Handle;

use super::REPEATS_MAX;

/// No daemon binds the topics of these calls.
const TOPIC: &str = "cuts";
const CHILDREN: &str = "cuts-children";
const REFUSES: &str = "cuts-refuse";
const SPLIT: &str = "cuts-split";
const HOUR: Duration = Duration::from_secs(3_600);

/// A call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    Requeue,
    ListState,
    Prune,
    /// All that maintenance prunes.
    Maintain,
    Record,
    /// Relays a follow-up next to one whose topic refuses it.
    Relay,
    Get,
    Set,
    Delete,
    /// Pushes to a topic whose number of shards has changed.
    Split,
    ForgetShards,
    Examine,
    Repair,
}

/// The two connections.
pub(super) struct Direct<'s> {
    runtime: Handle,
    redis: &'s RedisServer,
    cut: Queue,
    whole: Queue,
    topic: TopicName,
}

/// Repeats a call whose reply was lost, as its callers do.
async fn again<T>(call: impl AsyncFn() -> Result<T, QueueError>) -> anyhow::Result<T> {
    let mut answer = call().await;
    for _ in 0..REPEATS_MAX {
        if matches!(answer, Err(QueueError::NoReply(_))) {
            answer = call().await;
        }
    }
    Ok(answer?)
}

impl<'s> Direct<'s> {
    pub(super) fn connect(
        runtime: &Handle,
        redis: &'s RedisServer,
        cut_url: &str,
    ) -> anyhow::Result<Self> {
        let connect = |url: String| async move {
            Queue::connect(&ConnectionSettings::new(url), "duebox").await
        };
        let cut = runtime.block_on(connect(cut_url.to_owned()))?;
        let whole = runtime.block_on(connect(redis.url()))?;
        let topic = TopicName::new(TOPIC)?;
        Ok(Self { runtime: runtime.clone(), redis, cut, whole, topic })
    }

    /// Makes the call and checks its effect.
    pub(super) fn drive(&self, call: Call, number: u64) -> anyhow::Result<()> {
        let id = JobId::new(format!("cut-{number}"))?;
        self.runtime.block_on(async {
            match call {
                Call::Requeue => self.requeue(id).await,
                Call::ListState => self.list_state(id).await,
                Call::Prune => self.prune(id).await,
                Call::Maintain => self.maintain().await,
                Call::Record => self.record(id).await,
                Call::Relay => self.relay(id).await,
                Call::Get | Call::Set | Call::Delete => self.store(call, number).await,
                Call::Split => self.split(id).await,
                Call::ForgetShards => self.forget_shards().await,
                Call::Examine => self.examine(id).await,
                Call::Repair => self.repair().await,
            }
        })
    }

    fn key(part: &str) -> String {
        format!("duebox:{{{TOPIC}}}:{part}")
    }

    async fn push(&self, topic: &TopicName, id: &JobId, due: Due) -> anyhow::Result<()> {
        let job = NewJob::new(id.clone(), &b"x"[..]).with_due(due);
        self.whole.push(topic, &[job], IfExists::Keep).await?;
        Ok(())
    }

    /// Pushes a job and settles it.
    async fn end(&self, id: &JobId, verdict: Verdict) -> anyhow::Result<()> {
        self.push(&self.topic, id, Due::Now).await?;
        let pull = PullOptions::new("campaign", 1, HOUR, Duration::from_secs(5))?;
        let lease = self.whole.pull(&self.topic, &pull).await?.leases.pop();
        let lease = lease.context("no job was leased")?;
        ensure!(lease.id == *id, "{:?} is leased", lease.id);
        self.whole.settle(&self.topic, &[lease.settle(verdict)]).await?;
        Ok(())
    }

    async fn requeue(&self, id: JobId) -> anyhow::Result<()> {
        self.end(&id, Verdict::drop("it is to be requeued")).await?;
        again(async || self.cut.requeue(&self.topic, std::slice::from_ref(&id)).await).await?;
        let job = self.whole.get(&self.topic, &id).await?.context("the job is gone")?;
        ensure!(job.dead.is_none(), "it is still dead");
        self.whole.cancel(&self.topic, &id).await?;
        Ok(())
    }

    async fn list_state(&self, id: JobId) -> anyhow::Result<()> {
        self.push(&self.topic, &id, Due::In(HOUR)).await?;
        let query = JobQuery::new(JobState::Pending);
        let page = again(async || self.cut.list_state(&self.topic, &query).await).await?;
        ensure!(page.jobs.iter().any(|job| job.id == id), "the job is not listed");
        self.whole.cancel(&self.topic, &id).await?;
        Ok(())
    }

    async fn prune(&self, id: JobId) -> anyhow::Result<()> {
        self.end(&id, Verdict::drop("it is to be pruned")).await?;
        again(async || self.cut.prune(&self.topic, std::slice::from_ref(&id)).await).await?;
        ensure!(self.whole.get(&self.topic, &id).await?.is_none(), "the job is still there");
        Ok(())
    }

    async fn maintain(&self) -> anyhow::Result<()> {
        let (ttl, name) = (Some(Duration::from_millis(1)), b"short");
        self.whole.kv_set(&self.topic, name, b"v", ttl, KvCondition::Always).await?;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let shard = self.topic.first_shard();
        again(async || self.cut.prune_ended(&shard, None::<&RetentionLimits>).await).await?;
        let left = self.redis.cli(&["HEXISTS", &Self::key("kv"), "short"]);
        ensure!(left == "0", "the expired value is still there");
        Ok(())
    }

    async fn record(&self, id: JobId) -> anyhow::Result<()> {
        self.end(&id, Verdict::drop("it is recorded")).await?;
        let (shard, records) = (self.topic.first_shard(), [(id.clone(), b"read".to_vec())]);
        again(async || self.cut.keep_recordings(&shard, &records).await).await?;
        let stored = self.whole.recording(&self.topic, &id).await?.context("no recording")?;
        ensure!(stored.recording == b"read"[..], "it is another recording");
        self.whole.prune(&self.topic, &[id]).await?;
        Ok(())
    }

    async fn relay(&self, id: JobId) -> anyhow::Result<()> {
        self.redis.cli(&["SET", &format!("duebox:{{{REFUSES}}}:jobs"), "a text"]);
        let children = TopicName::new(CHILDREN)?;
        let follow_up = |topic: TopicName| FollowUp {
            topic,
            id: id.clone(),
            due: FollowUpDue::AfterMs(3_600_000),
            payload: (&b"x"[..]).into(),
            options: Options::default(),
        };
        let follow_ups = vec![follow_up(children.clone()), follow_up(TopicName::new(REFUSES)?)];
        self.end(&id, Verdict::Finish(Finish { follow_ups, ..Finish::default() })).await?;
        let shard = self.topic.first_shard();
        again(async || {
            let mut pass = RelayPass::default();
            while self.cut.relay(&shard, &mut pass).await?.more {}
            Ok(())
        })
        .await?;
        ensure!(self.whole.get(&children, &id).await?.is_some(), "the follow-up is not pushed");
        let left = self.redis.cli(&["HLEN", &Self::key("outbox")]);
        ensure!(left == "1", "{left} entries wait for the topic that refuses");
        self.redis.cli(&["DEL", &Self::key("outbox")]);
        self.whole.cancel(&children, &id).await?;
        Ok(())
    }

    async fn store(&self, call: Call, number: u64) -> anyhow::Result<()> {
        let (topic, name, value) = (&self.topic, b"name", number.to_string().into_bytes());
        let always = KvCondition::Always;
        if !matches!(call, Call::Set) {
            self.whole.kv_set(topic, name, &value, None, always).await?;
        }
        match call {
            Call::Set => {
                again(async || self.cut.kv_set(topic, name, &value, None, always).await).await?;
            }
            Call::Get => {
                let found = again(async || self.cut.kv_get(topic, name).await).await?;
                ensure!(found.is_some_and(|found| found.value == value), "another value");
            }
            _ => drop(again(async || self.cut.kv_delete(topic, name).await).await?),
        }
        let found = self.whole.kv_get(topic, name).await?.map(|found| found.value.to_vec());
        let expected = (!matches!(call, Call::Delete)).then_some(value);
        ensure!(found == expected, "the store has {found:?}");
        Ok(())
    }

    async fn split(&self, id: JobId) -> anyhow::Result<()> {
        let topic = TopicName::new(SPLIT)?;
        for shards in [2, 3] {
            let shards = NonZero::new(shards);
            self.whole.configure(&topic, &Limits { shards, ..Limits::default() }).await?;
        }
        let job = NewJob::new(id.clone(), &b"x"[..]).with_due(Due::In(HOUR));
        again(async || self.cut.push(&topic, std::slice::from_ref(&job), IfExists::Keep).await)
            .await?;
        let live = self.whole.list_live(&topic, 10).await?.len();
        ensure!(live == 1, "{live} jobs are live");
        self.whole.cancel(&topic, &id).await?;
        Ok(())
    }

    async fn forget_shards(&self) -> anyhow::Result<()> {
        for shards in [NonZero::new(2), None] {
            self.whole.configure(&self.topic, &Limits { shards, ..Limits::default() }).await?;
        }
        again(async || self.cut.forget_old_shards(&self.topic).await).await?;
        let left = self.redis.cli(&["HEXISTS", &Self::key("meta"), "shards_seen"]);
        ensure!(left == "0", "the earlier numbers of shards are still known");
        Ok(())
    }

    async fn examine(&self, id: JobId) -> anyhow::Result<()> {
        self.push(&self.topic, &id, Due::In(HOUR)).await?;
        let findings = self.findings(Checkup::LOOK).await?;
        ensure!(findings.is_empty(), "{findings:?}");
        self.whole.cancel(&self.topic, &id).await?;
        Ok(())
    }

    async fn repair(&self) -> anyhow::Result<()> {
        self.redis.cli(&["HSET", &Self::key("outbox"), "bad", "entry"]);
        self.findings(Checkup::REPAIR).await?;
        let left = self.redis.cli(&["HLEN", &Self::key("outbox")]);
        ensure!(left == "0", "the bad entry is still there");
        Ok(())
    }

    async fn findings(&self, checkup: Checkup) -> anyhow::Result<Vec<Finding>> {
        let shard = self.topic.first_shard();
        again(async || {
            let mut findings = Vec::new();
            self.cut.examine(&shard, checkup, &mut |found| findings.push(found)).await?;
            Ok(findings)
        })
        .await
    }
}
