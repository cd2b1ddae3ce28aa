//! The handler of every job: it does what the plan says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duebox::executor::runs::SimulatedRuns;
use duebox_job::{
    Failure, FailureClass, FollowUp, FollowUpDue, JobId, Options, Outcome, TopicName,
};
use duebox_queue::Queue;
use duebox_sandbox::{Interrupt, InterruptReason, Invocation, RunReport};
use futures_util::future::BoxFuture;

use super::ledger::{End, Ledger, Start};
use super::plan::{JobPlan, Plan, TOPICS};

/// The payload of a job that replaces another one.
pub(crate) const REPLACEMENT: &str = "2";
/// The number in the store to which handlers add.
pub(crate) const ADDED_TO: &[u8] = b"acks";

/// The handlers of one daemon.
#[derive(Clone)]
pub(crate) struct Handlers {
    /// What they do.
    pub(crate) plan: Arc<Plan>,
    /// Where it is recorded.
    pub(crate) ledger: Ledger,
    /// The daemon, by its link.
    pub(crate) daemon: u64,
    /// Set when the daemon is killed: nothing of it happens any more.
    pub(crate) is_killed: Arc<AtomicBool>,
    /// What they reach the store with.
    pub(crate) queue: Queue,
}

impl SimulatedRuns for Handlers {
    fn run(&self, invocation: Invocation, interrupt: Interrupt) -> BoxFuture<'static, RunReport> {
        let handlers = self.clone();
        Box::pin(async move { handlers.run_one(invocation, interrupt).await })
    }
}

impl Handlers {
    /// Those of a daemon that starts: with this link and this client of its queue.
    pub(crate) fn of_daemon(&self, daemon: u64, queue: &Queue) -> Self {
        let is_killed = Arc::new(AtomicBool::new(false));
        Self { daemon, is_killed, queue: queue.clone(), ..self.clone() }
    }

    async fn run_one(self, invocation: Invocation, interrupt: Interrupt) -> RunReport {
        self.stop_if_killed().await;
        if let Some(reason) = interrupt.reason() {
            return RunReport::without_guest(Outcome::HostFault(reason.describe().to_owned()));
        }
        let id = invocation.id.to_string();
        let version = if &invocation.payload[..] == REPLACEMENT.as_bytes() { 2 } else { 1 };
        let attempt = invocation.attempt;
        let start = Start { id: &id, daemon: self.daemon, attempt, version };
        let run = self.ledger.begins(start);
        self.check_limits(&id);
        let job = self.plan.job(&id);
        let length = job.map_or(Duration::from_millis(20), |job| job.length);
        let interrupted = tokio::select! {
            biased;
            reason = interrupt.raised() => Some(reason),
            () = self.work(length, job) => None,
        };
        self.stop_if_killed().await;
        let (end, report) = match interrupted {
            Some(reason) => (End::Interrupted, stopped(reason)),
            None => self.verdict(&id, attempt),
        };
        self.ledger.ends(&run, end);
        report
    }

    /// What takes the time of a run.
    async fn work(&self, length: Duration, job: Option<&JobPlan>) {
        if !length.is_zero() {
            tokio::time::sleep(length).await;
        }
        if !job.is_some_and(|job| job.adds) {
            return;
        }
        self.stop_if_killed().await;
        self.ledger.with(|book| book.additions.0 += 1);
        let topic = TopicName::new(TOPICS[0]).expect("a topic's name");
        if self.queue.kv_add(&topic, ADDED_TO, 1).await.is_ok() {
            self.ledger.with(|book| book.additions.1 += 1);
        }
    }

    async fn stop_if_killed(&self) {
        if self.is_killed.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Records a limit that is exceeded.
    fn check_limits(&self, id: &str) {
        let topic = self.plan.job(id).map_or(0, |job| job.topic);
        let key = self.plan.job(id).and_then(|job| job.key.as_ref());
        if let Some(key) = key {
            let is_of_key =
                |id: &str| self.plan.job(id).is_some_and(|job| job.key.as_ref() == Some(key));
            let running = self.ledger.running(is_of_key);
            if running > 1 {
                self.ledger.violated(format!("{id}: {running} jobs of the key {key} run"));
            }
        }
        let most = self.plan.settings.max_running as usize;
        if topic == 0 && most > 0 {
            let is_plain = |id: &str| self.plan.job(id).is_none_or(|job| job.topic == 0);
            let running = self.ledger.running(is_plain);
            if running > most {
                self.ledger.violated(format!("{id}: {running} jobs run, max_running is {most}"));
            }
        }
    }

    fn verdict(&self, id: &str, attempt: u32) -> (End, RunReport) {
        let Some(job) = self.plan.job(id) else {
            return (End::Acked, RunReport::without_guest(Outcome::Acked));
        };
        let snoozed = self.ledger.with(|book| book.accounts[id].count(End::Snoozed));
        if (snoozed as u32) < job.snoozes {
            let delay = Duration::from_millis(400);
            let outcome = Outcome::Snoozed { delay, reason: String::new() };
            return (End::Snoozed, RunReport::without_guest(outcome));
        }
        if attempt <= job.nacks {
            return (End::Nacked, failed(FailureClass::Nack));
        }
        if job.is_dropped {
            return (End::Dropped, failed(FailureClass::Drop));
        }
        let mut report = RunReport::without_guest(Outcome::Acked);
        report.follow_ups = (0..job.follow_ups).map(|n| follow_up(id, n)).collect();
        (End::Acked, report)
    }
}

/// The id of a job's follow-up.
pub(crate) fn follow_up_id(id: &str, number: u32) -> String {
    format!("{id}.{number}")
}

fn follow_up(id: &str, number: u32) -> FollowUp {
    FollowUp {
        topic: TopicName::new(TOPICS[0]).expect("a topic's name"),
        id: JobId::new(follow_up_id(id, number)).expect("a job's id"),
        due: FollowUpDue::AfterMs(u64::from(number) * 300),
        payload: "{}".into(),
        options: Options::default(),
    }
}

fn failed(class: FailureClass) -> RunReport {
    let failure = Failure { class, reason: "as planned".to_owned(), retry_after: None };
    RunReport::without_guest(Outcome::Failed(failure))
}

fn stopped(reason: InterruptReason) -> RunReport {
    RunReport::without_guest(Outcome::HostFault(reason.describe().to_owned()))
}
