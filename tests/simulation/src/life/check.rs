//! What must hold at the end of a life.

use std::collections::BTreeMap;

use duebox_queue::{Checkup, Queue};

use super::daemon::topic;
use super::handler::{ADDED_TO, follow_up_id};
use super::ledger::{Account, End, Ledger, PushResult, Run, Told};
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
pub(crate) fn check_jobs(plan: &Plan, server: &Server, ledger: &Ledger) {
    let accounts = ledger.with(|book| std::mem::take(&mut book.accounts));
    let none = Account::default();
    for job in &plan.jobs {
        let account = accounts.get(&job.id).unwrap_or(&none);
        let dead = death(server.database(), TOPICS[job.topic], &job.id);
        let found = Found { job, account, dead: dead.as_deref(), ledger };
        let mut violations = found.violations();
        for number in 0..job.follow_ups {
            let follow_up = follow_up_id(&job.id, number);
            let ran = accounts.get(&follow_up).unwrap_or(&none);
            let is_dead = death(server.database(), TOPICS[0], &follow_up).is_some();
            violations.extend(found.follow_up_violation(&follow_up, ran, is_dead));
        }
        ledger.with(|book| book.violations.extend(violations));
    }
    check_ticks(plan, server, ledger, &accounts);
    ledger.with(|book| {
        book.violations.extend(ledger.witness().take_violations());
        book.accounts = accounts;
    });
}

/// What was found of a job.
struct Found<'a> {
    job: &'a JobPlan,
    account: &'a Account,
    dead: Option<&'a str>,
    ledger: &'a Ledger,
}

impl Found<'_> {
    fn violations(&self) -> Vec<String> {
        let mut faulty = self.end_violations();
        faulty.extend(again(self.account, self.ledger));
        faulty.extend(self.order_violations());
        let (id, account) = (&self.job.id, self.account);
        faulty.into_iter().map(|text| format!("{id}: {text}; {account:?}")).collect()
    }

    /// How the job ended.
    fn end_violations(&self) -> Vec<String> {
        let Self { job, account, dead, .. } = *self;
        let mut faulty = Vec::new();
        let mut say = |text: String| faulty.push(text);
        let is_replaced = matches!(account.replaced, Some(Told::Done(_)));
        let only_refused = account.pushes.iter().all(|push| *push == PushResult::Refused)
            && matches!(account.replaced, None | Some(Told::Nothing));
        if only_refused && !account.runs.is_empty() {
            say("every push was refused, and it ran".to_owned());
        }
        let is_due = (account.is_confirmed() || is_replaced) && !self.may_be_cancelled();
        let acks = |version| {
            account.runs.iter().filter(|run| run.is(End::Acked) && run.version >= version).count()
        };
        match dead {
            // The witness has judged those that were counted. The last one buries the job instead.
            Some("crashed") => {
                let crashes = self.ledger.witness().crashes(&job.id) + 1;
                if crashes < MAX_CRASHES {
                    say(format!("dead as crashed after {crashes} crashes"));
                }
            }
            Some(class) if !job.dies() || class != job.class() => say(format!("dead as {class}")),
            Some(_) => {}
            None if is_due && job.dies() => say("not dead".to_owned()),
            None if is_due && acks(1) == 0 => say("lost".to_owned()),
            None if is_due && is_replaced && acks(2) == 0 => {
                say("the job in its place is lost".to_owned());
            }
            None => {}
        }
        faulty
    }

    fn may_be_cancelled(&self) -> bool {
        !matches!(self.account.cancelled, None | Some(Told::Nothing))
    }

    /// Runs that were leased after an operator had cancelled or replaced the job.
    fn order_violations(&self) -> Option<String> {
        let account = self.account;
        let runs_after = |moment, versions: std::ops::RangeInclusive<u8>| {
            let is_after = |run: &&Run| run.leased_at > moment && versions.contains(&run.version);
            account.is_pushed_by(moment) && account.runs.iter().any(|run| is_after(&run))
        };
        if let Some(Told::Done(at)) = account.cancelled
            && account.replaced.is_none()
            && runs_after(at, 1..=2)
        {
            return Some("leased after it was cancelled".to_owned());
        }
        if let Some(Told::Done(at)) = account.replaced
            && runs_after(at, 1..=1)
        {
            return Some("leased after it was replaced".to_owned());
        }
        None
    }

    /// A follow-up of an acked job that did not run, or ran again. An ack that was not committed commits none.
    fn follow_up_violation(&self, id: &str, ran: &Account, is_dead: bool) -> Option<String> {
        let acks = self.account.count(End::Acked);
        let is_committed = acks > 0 && self.dead.is_none() && !self.may_be_cancelled();
        if is_committed && self.account.replaced.is_none() && ran.count(End::Acked) == 0 && !is_dead
        {
            return Some(format!("{id}: the follow-up is lost; {:?} {ran:?}", self.account));
        }
        let text = again(ran, self.ledger).filter(|_| acks <= 1)?;
        Some(format!("{id}: {text}; {ran:?}"))
    }
}

/// A job that ran again after a run that ended it, though nothing broke the lease of that run, and no one may
/// have pushed it again. The other run may have a lease that a failover lost.
fn again(account: &Account, ledger: &Ledger) -> Option<String> {
    if account.pushes.contains(&PushResult::Unknown) || account.replaced == Some(Told::Unknown) {
        return None;
    }
    let is_again = |pair: &[Run]| {
        let (run, next) = (&pair[0], &pair[1]);
        (run.is(End::Acked) || run.is(End::Dropped))
            && run.version == next.version
            && !ledger.witness().is_hit(run.daemon, run.leased_at, next.began)
            && !ledger.witness().is_clock_set(next.leased_at, next.began)
    };
    let found = account.runs.windows(2).any(is_again);
    found.then(|| "ran again after it had ended, without a broken lease".to_owned())
}

/// Checks that no tick is missing between the first and the last, and that none runs again.
fn check_ticks(
    plan: &Plan,
    server: &Server,
    ledger: &Ledger,
    accounts: &BTreeMap<String, Account>,
) {
    if plan.sets_clock() {
        return;
    }
    let tick = TICK.as_millis() as u64;
    let time = |id: &String| id.strip_prefix("tick@").and_then(|time| time.parse::<u64>().ok());
    let mut times: Vec<u64> = accounts.keys().filter_map(time).collect();
    times.sort_unstable();
    let (Some(first), Some(last)) = (times.first().copied(), times.last().copied()) else { return };
    for time in (first..=last).step_by(tick as usize) {
        let id = format!("tick@{time}");
        let account = accounts.get(&id);
        let acks = account.map_or(0, |account| account.count(End::Acked));
        if acks == 0 && death(server.database(), TOPICS[0], &id).is_none() {
            ledger.violated(format!("{id}: the tick is lost"));
        }
        if let Some(text) = account.and_then(|account| again(account, ledger)) {
            ledger.violated(format!("{id}: {text}; {account:?}"));
        }
    }
}

/// Checks that each addition to the store counts once, or not at all if it was not confirmed.
pub(crate) async fn check_store(queue: &Queue, ledger: &Ledger) {
    let sum = match queue.kv_get(&topic(TOPICS[0]), ADDED_TO).await {
        Ok(entry) => {
            entry.map_or(0, |entry| String::from_utf8_lossy(&entry.value).parse().unwrap_or(0))
        }
        Err(error) => return ledger.violated(format!("the store: {error}")),
    };
    let (calls, confirmed) = ledger.with(|book| book.additions);
    if !(confirmed..=calls).contains(&sum) {
        let text = format!("the store has {sum} for {confirmed} confirmed of {calls} additions");
        ledger.violated(text);
    }
}

/// The topics that are paused.
pub(crate) fn paused(server: &Server) -> Vec<&'static str> {
    let is_paused = |topic: &&str| {
        let Some(Stored::Hash(meta)) = server.database().get(&key(topic, "meta")) else {
            return false;
        };
        meta.contains_key(b"paused".as_slice())
    };
    TOPICS.into_iter().filter(is_paused).collect()
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
