//! The handler of every job: it does what the plan says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duebox::executor::runs::SimulatedRuns;
use duebox_job::{
    Failure, FailureClass, FollowUp, FollowUpDue, JobId, Options, Outcome, TopicName,
};
use duebox_sandbox::{Interrupt, InterruptReason, Invocation, RunReport};
use futures_util::future::BoxFuture;

use super::ledger::{End, Ledger};
use super::plan::{Plan, TOPICS};

/// The handlers of one daemon.
#[derive(Clone)]
pub(crate) struct Handlers {
    /// What they do.
    pub(crate) plan: Arc<Plan>,
    /// Where it is recorded.
    pub(crate) ledger: Ledger,
    /// The number of the daemon.
    pub(crate) daemon: u64,
    /// Set when the daemon is killed: nothing of it happens any more.
    pub(crate) is_killed: Arc<AtomicBool>,
}

impl SimulatedRuns for Handlers {
    fn run(&self, invocation: Invocation, interrupt: Interrupt) -> BoxFuture<'static, RunReport> {
        let handlers = self.clone();
        Box::pin(async move { handlers.run_one(invocation, interrupt).await })
    }
}

impl Handlers {
    async fn run_one(self, invocation: Invocation, interrupt: Interrupt) -> RunReport {
        self.stop_if_killed().await;
        if let Some(reason) = interrupt.reason() {
            return RunReport::without_guest(Outcome::HostFault(reason.describe().to_owned()));
        }
        let id = invocation.id.to_string();
        let run = self.ledger.begins(&id, self.daemon, invocation.attempt);
        self.check_limits(&id);
        let length = self.plan.job(&id).map_or(Duration::from_millis(20), |job| job.length);
        let interrupted = tokio::select! {
            biased;
            reason = interrupt.raised() => Some(reason),
            () = tokio::time::sleep(length) => None,
        };
        self.stop_if_killed().await;
        let (end, report) = match interrupted {
            Some(reason) => (End::Interrupted, stopped(reason)),
            None => self.verdict(&id, invocation.attempt),
        };
        self.ledger.ends(run, end);
        report
    }

    async fn stop_if_killed(&self) {
        if self.is_killed.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    /// Records a limit that is exceeded. A clock that is set ends leases early, so limits cannot hold then.
    fn check_limits(&self, id: &str) {
        if self.plan.sets_clock() {
            return;
        }
        let Some(job) = self.plan.job(id) else { return };
        if let Some(key) = &job.key {
            let is_of_key =
                |id: &str| self.plan.job(id).is_some_and(|job| job.key.as_ref() == Some(key));
            let running = self.ledger.running(is_of_key);
            // The end of a lease may overtake the end of its run by the resolution of a timer.
            if running > 1 && !self.plan.may_break_leases() {
                self.ledger.violated(format!("{id}: {running} jobs of the key {key} run"));
            }
        }
        let most = self.plan.settings.max_running as usize;
        if job.topic == 0 && most > 0 && !self.plan.may_break_leases() {
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
