//! What must hold at the end of a life.

use duebox_queue::{Checkup, Queue};

use super::daemon::topic;
use super::handler::follow_up_id;
use super::ledger::{Account, Book, End, PushResult};
use super::plan::{JobPlan, MAX_CRASHES, Plan, TICK, TOPICS};
use crate::redis::database::{Database, Stored};
use crate::redis::server::Server;

/// The keys that hold jobs which have not ended.
const LIVE: [&str; 7] = ["jobs", "pending", "ready", "unack", "retry", "blocked", "outbox"];

fn key(topic: &str, name: &str) -> Vec<u8> {
    format!("duebox:{{{topic}}}:{name}").into_bytes()
}

/// The keys that still hold jobs which have not ended.
pub(crate) fn unfinished(server: &Server) -> Vec<String> {
    let keys = TOPICS.iter().flat_map(|topic| LIVE.map(|name| key(topic, name)));
    let found = keys.filter(|key| server.database().get(key).is_some());
    found.map(|key| String::from_utf8_lossy(&key).into_owned()).collect()
}

/// Why a job is dead; `None` if it is not.
fn death(db: &Database, topic: &str, id: &str) -> Option<String> {
    let Some(Stored::Hash(infos)) = db.get(&key(topic, "dead:info")) else { return None };
    let info: serde_json::Value = serde_json::from_slice(infos.get(id.as_bytes())?).ok()?;
    Some(info["class"].as_str().unwrap_or_default().to_owned())
}

/// Checks every job of the plan.
pub(crate) fn check_jobs(plan: &Plan, server: &Server, book: &mut Book, faults: u64) {
    for job in &plan.jobs {
        let account = book.accounts.get(&job.id).cloned().unwrap_or_default();
        let dead = death(server.database(), TOPICS[job.topic], &job.id);
        let found = Found { plan, job, account: &account, dead: dead.as_deref(), faults };
        let mut violations = found.violations();
        for number in 0..job.follow_ups {
            let follow_up = follow_up_id(&job.id, number);
            let ran = book.accounts.get(&follow_up).cloned().unwrap_or_default();
            let crashed = death(server.database(), TOPICS[0], &follow_up).is_some();
            violations.extend(found.follow_up_violation(&follow_up, &ran, crashed));
        }
        book.violations.extend(violations);
    }
    check_ticks(plan, server, book);
}

/// What was found of a job.
struct Found<'a> {
    plan: &'a Plan,
    job: &'a JobPlan,
    account: &'a Account,
    dead: Option<&'a str>,
    faults: u64,
}

impl Found<'_> {
    fn violations(&self) -> Vec<String> {
        let Self { plan, job, account, dead, faults } = *self;
        let acks = account.count(End::Acked);
        let mut faulty = Vec::new();
        let mut say = |text: String| faulty.push(format!("{}: {text}; {account:?}", job.id));
        let only_refused = account.pushes.iter().all(|push| *push == PushResult::Refused);
        if only_refused && !account.ends.is_empty() {
            say("every push was refused, and it ran".to_owned());
        }
        match dead {
            Some("crashed") if faults < MAX_CRASHES => say(format!("dead of {faults} faults")),
            Some("crashed") => {}
            Some(class) if !job.dies() || class != job.class() => say(format!("dead as {class}")),
            Some(_) => {}
            None if account.is_confirmed() && job.dies() => say("not dead".to_owned()),
            None if account.is_confirmed() && acks == 0 => say("lost".to_owned()),
            None => {}
        }
        let pushes = account.pushes.iter().filter(|push| **push == PushResult::Unknown).count();
        if acks > 1 && !plan.may_break_leases() && pushes == 0 {
            say(format!("acked {acks} times without a broken lease"));
        }
        faulty
    }

    /// A follow-up of an acked job that did not run. An ack that was not committed commits none.
    fn follow_up_violation(&self, id: &str, ran: &Account, is_dead: bool) -> Option<String> {
        let acked = self.account.count(End::Acked) > 0 && self.dead.is_none();
        let is_lost = acked && ran.count(End::Acked) == 0 && !is_dead;
        is_lost.then(|| format!("{id}: the follow-up is lost; {:?} {ran:?}", self.account))
    }
}

/// Checks that no tick is missing between the first and the last.
fn check_ticks(plan: &Plan, server: &Server, book: &mut Book) {
    if plan.sets_clock() {
        return;
    }
    let tick = TICK.as_millis() as u64;
    let time = |id: &String| id.strip_prefix("tick@").and_then(|time| time.parse::<u64>().ok());
    let mut times: Vec<u64> = book.accounts.keys().filter_map(time).collect();
    times.sort_unstable();
    let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else { return };
    for time in (first..=last).step_by(tick as usize) {
        let id = format!("tick@{time}");
        let acks = book.accounts.get(&id).map_or(0, |account| account.count(End::Acked));
        if acks == 0 && death(server.database(), TOPICS[0], &id).is_none() {
            book.violations.push(format!("{id}: the tick is lost"));
        }
        if acks > 1 && !plan.may_break_leases() {
            book.violations.push(format!("{id}: acked {acks} times without a broken lease"));
        }
    }
}

/// What the doctor finds.
pub(crate) async fn examine(queue: &Queue) -> Vec<String> {
    let mut found = Vec::new();
    for name in TOPICS {
        let mut note = |finding| found.push(format!("doctor: {finding:?}"));
        match queue.examine(&topic(name).first_shard(), Checkup::LOOK, &mut note).await {
            Ok(unexamined) if unexamined.is_empty() => {}
            Ok(unexamined) => found.push(format!("doctor: not examined: {unexamined:?}")),
            Err(error) => found.push(format!("doctor: {error}")),
        }
    }
    found
}
