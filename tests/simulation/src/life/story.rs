//! The course of a life: a storm of faults, then calm, in which everything must end.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use duebox_queue::Queue;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::consumer::Consumer;
use super::daemon::{Daemon, topic};
use super::handler::Handlers;
use super::ledger::Ledger;
use super::plan::{Fault, PULLED, Plan, STORM};
use super::{Life, StartedRun, check, producer};
use crate::network::{FaultRates, Network};
use crate::redis::server::{Refusal, Server};

/// How long the calm lasts at most. Redis' clock may have been set back by 30 s.
const CALM_MAX: Duration = Duration::from_secs(300);
/// How long a failover waits for a lease that the replica lacks.
const LEASE_WITHIN: Duration = Duration::from_secs(1);
/// The time from the failure of a primary until its replica replies.
const FAILOVER: Duration = Duration::from_millis(300);
/// How often the calm looks whether everything has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A life while it is lived.
pub(super) struct Story {
    plan: Arc<Plan>,
    network: Network,
    ledger: Ledger,
    handlers: Handlers,
    daemons: Vec<Option<Daemon>>,
    /// Faults other than those of the network.
    faults: u64,
    /// What ends later, by its time.
    later: Vec<(Instant, Later)>,
}

/// What ends a fault.
#[derive(Debug, Clone, Copy)]
enum Later {
    Start(usize),
    CalmNetwork,
    Up,
    RefuseNothing,
    FailOver { behind_ms: i64 },
}

impl Story {
    pub(super) async fn live(plan: Arc<Plan>, network: Network) -> Life {
        let began = Instant::now();
        let ledger = Ledger::new(network.witness().clone());
        let queue = Queue::over(network.link(), "duebox");
        let handlers = Handlers {
            plan: Arc::clone(&plan),
            ledger: ledger.clone(),
            daemon: 0,
            is_killed: Arc::new(AtomicBool::new(false)),
            queue: queue.clone(),
        };
        let count = plan.daemons;
        let mut story = Self {
            plan,
            network,
            ledger,
            handlers,
            daemons: (0..count).map(|_| None).collect(),
            faults: 0,
            later: Vec::new(),
        };
        (0..count).for_each(|daemon| story.start(daemon));
        let its = || (Arc::clone(&story.plan), story.ledger.clone());
        let (plan, ledger) = its();
        let producing = tokio::spawn(producer::produce(plan, queue.clone(), ledger));
        let (plan, ledger) = its();
        let orders = Queue::over(story.network.link(), "duebox");
        let operating = tokio::spawn(producer::operate(plan, orders, ledger));
        if story.plan.jobs.iter().any(|job| job.topic == PULLED) {
            let (plan, ledger) = its();
            tokio::spawn(Consumer::new(plan, ledger, &story.network).run());
        }
        story.storm(began).await;
        let is_over = story.calm(&queue, [producing, operating]).await;
        story.judge(&queue, is_over, began).await
    }

    fn start(&mut self, daemon: usize) {
        let started = Daemon::start(&self.network, &self.handlers);
        if let Some(previous) = self.daemons[daemon].replace(started) {
            previous.kill();
        }
    }

    async fn storm(&mut self, began: Instant) {
        for (at, fault) in self.plan.faults.clone() {
            self.end_faults(began + at).await;
            sleep_until(began + at).await;
            self.happen(fault).await;
        }
        self.end_faults(began + STORM).await;
        sleep_until(began + STORM).await;
    }

    /// Ends the faults whose time comes until then.
    async fn end_faults(&mut self, until: Instant) {
        loop {
            // The end of one fault may begin another.
            self.later.sort_by_key(|(when, _)| *when);
            let next = self.later.first().copied().filter(|(when, _)| *when <= until);
            let Some((when, later)) = next else { break };
            self.later.remove(0);
            sleep_until(when).await;
            self.end(later);
        }
    }

    fn end(&mut self, later: Later) {
        match later {
            Later::Start(daemon) => self.start(daemon),
            Later::CalmNetwork => self.network.set_rates(FaultRates::default()),
            Later::Up => self.network.set_down(false),
            Later::FailOver { behind_ms } => {
                self.network.set_down(true);
                let leased = self.network.server(|server| server.fail_over(behind_ms * 1_000));
                self.network.witness().failed_over(&leased);
                self.later.push((Instant::now() + FAILOVER, Later::Up));
            }
            Later::RefuseNothing => {
                self.network.server(|server| server.refuse(Refusal::None));
                self.network.witness().refuses(false);
            }
        }
    }

    async fn happen(&mut self, fault: Fault) {
        let now = Instant::now();
        self.faults += u64::from(fault.breaks_leases());
        match fault {
            Fault::Kill(daemon, span) => {
                if let Some(daemon) = self.daemons[daemon].take() {
                    daemon.kill();
                }
                self.later.push((now + span, Later::Start(daemon)));
            }
            Fault::Drain(daemon, span) => {
                if let Some(daemon) = self.daemons[daemon].take() {
                    tokio::spawn(daemon.drain(span));
                }
                self.later.push((now + span, Later::Start(daemon)));
            }
            Fault::Network(rates, span) => {
                self.network.set_rates(rates);
                self.later.push((now + span, Later::CalmNetwork));
            }
            Fault::Down(span) => {
                self.network.set_down(true);
                self.network.server(Server::restart);
                self.later.push((now + span, Later::Up));
            }
            Fault::Stall(span) => self.network.stall(span),
            Fault::Refuse(refusal, span) => {
                self.network.server(|server| server.refuse(refusal));
                self.network.witness().refuses(true);
                self.later.push((now + span, Later::RefuseNothing));
            }
            Fault::FlushScripts => self.network.server(Server::flush_scripts),
            Fault::Failover(lag, behind_ms) => {
                self.network.server(Server::let_replica_lag);
                let until = now + LEASE_WITHIN;
                while Instant::now() < until && !self.network.server(|it| it.replica_lacks_lease())
                {
                    sleep(Duration::from_millis(1)).await;
                }
                let now = Instant::now();
                self.later.push((now + lag, Later::FailOver { behind_ms }));
            }
            Fault::Clock(by_ms) => {
                self.network.server(|server| server.shift_clock(by_ms * 1_000));
                self.network.witness().clock_set();
            }
        }
    }

    /// Ends all faults, and waits until everything has ended; false if it does not.
    async fn calm(&mut self, queue: &Queue, pushing: [JoinHandle<()>; 2]) -> bool {
        while let Some((_, later)) = self.later.pop() {
            self.end(later);
        }
        for daemon in 0..self.daemons.len() {
            if self.daemons[daemon].is_none() {
                self.start(daemon);
            }
        }
        for task in pushing {
            if let Err(error) = task.await {
                self.ledger.violated(format!("a producer failed: {error}"));
            }
        }
        self.daemons.iter().flatten().for_each(Daemon::stop_schedules);
        let until = Instant::now() + CALM_MAX;
        while Instant::now() < until {
            sleep(LOOK_EVERY).await;
            // An order to pause may arrive late.
            for name in self.network.server(|server| check::paused(server)) {
                drop(queue.resume(&topic(name)).await);
            }
            if self.network.server(|server| check::unfinished(server).is_empty()) {
                return true;
            }
        }
        false
    }

    async fn judge(self, queue: &Queue, is_over: bool, began: Instant) -> Life {
        let lasted = began.elapsed();
        if !is_over {
            let left = self.network.server(|server| check::unfinished(server)).join(" ");
            self.ledger.violated(format!("not everything ended: {left}"));
        }
        // Late requests of clients that gave up may still arrive.
        sleep(Duration::from_secs(10)).await;
        for found in check::examine(queue).await {
            self.ledger.violated(found);
        }
        check::check_store(queue, &self.ledger).await;
        let faults = self.faults + self.network.faults();
        let turns_together = self.network.turns().together();
        let in_conflict = self.network.turns().in_conflict();
        if in_conflict > 0 {
            self.ledger.violated(format!(
                "{in_conflict} turns began while one that excludes them was under way"
            ));
        }
        self.network.server(|server| {
            check::check_jobs(&self.plan, server, &self.ledger);
            let (violations, drains, starts) = self.ledger.with(|book| {
                let runs = book.accounts.iter().flat_map(|(id, account)| {
                    account.runs.iter().map(move |run| (run.place, StartedRun::new(id, run)))
                });
                let starts: BTreeMap<u64, StartedRun> = runs.collect();
                let (violations, drains) = (&mut book.violations, &mut book.drains);
                (take(violations), take(drains), starts.into_values().collect())
            });
            let (seed, trace) = (self.plan.seed, server.trace());
            let went_back = self.network.witness().went_back();
            let lost_leases = self.network.witness().lost();
            Life {
                seed,
                violations,
                starts,
                drains,
                went_back,
                lost_leases,
                faults,
                turns_together,
                lasted,
                trace,
            }
        })
    }
}
