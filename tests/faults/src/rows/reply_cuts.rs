//! The connection closes after each byte of each reply: for each verb, for each length.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use duebox_harness::eventually;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use self::direct::{Call, Direct};
use crate::judge::Policy;
use crate::ledger::{Answer, Name};
use crate::plan::{CHILDREN, PULLED, WORK, child_of};
use crate::scene::{Context, Scene, Setting};
use crate::table::Outcome;

mod direct;

/// Short, so that a job of some hundred ms renews it.
const LEASE_MS: u64 = 1_000;
/// The longest wait for a verb that a drive should cause.
const MEET_MAX: Duration = Duration::from_secs(2);
/// How often a request that is answered 503 is repeated.
const REPEATS_MAX: usize = 3;
/// How often a verb is driven to measure its replies.
const MEASURES: usize = 4;

/// What makes the daemon call a verb.
#[derive(Debug, Clone, Copy)]
enum Drive {
    Push,
    Delayed,
    Slow,
    FollowUp,
    Abandoned,
    /// The schedule calls it all the time.
    Wait,
    /// The poller calls it while a job waits.
    Pending,
    Cancel,
    RunNow,
    Get,
    List,
    Pause,
    Reload,
    /// Called through the library.
    Direct(Call),
}

const VERBS: &[(&str, Drive)] = &[
    ("produce/push", Drive::Push),
    ("work/promote", Drive::Delayed),
    ("work/lease", Drive::Push),
    ("work/settle", Drive::Push),
    ("work/extend", Drive::Slow),
    ("work/reclaim", Drive::Abandoned),
    ("produce/outbox", Drive::FollowUp),
    ("produce/relay", Drive::FollowUp),
    ("produce/relayed", Drive::FollowUp),
    ("produce/tick", Drive::Wait),
    ("store/add", Drive::Push),
    ("produce/cancel", Drive::Cancel),
    ("produce/reschedule", Drive::RunNow),
    ("operate/get", Drive::Get),
    ("operate/peek", Drive::Pending),
    ("operate/list", Drive::List),
    ("operate/pause", Drive::Pause),
    ("topic/configure", Drive::Reload),
    ("topic/locate", Drive::Direct(Call::Split)),
    ("topic/forget_shards", Drive::Direct(Call::ForgetShards)),
    ("produce/trim_outbox", Drive::Direct(Call::Relay)),
    ("operate/requeue", Drive::Direct(Call::Requeue)),
    ("operate/list_state", Drive::Direct(Call::ListState)),
    ("operate/record", Drive::Direct(Call::Record)),
    ("operate/prune", Drive::Direct(Call::Prune)),
    ("operate/prune_recordings", Drive::Direct(Call::Prune)),
    ("operate/prune_records", Drive::Direct(Call::Maintain)),
    ("operate/prune_ticks", Drive::Direct(Call::Maintain)),
    ("store/prune", Drive::Direct(Call::Maintain)),
    ("store/get", Drive::Direct(Call::Get)),
    ("store/set", Drive::Direct(Call::Set)),
    ("store/delete", Drive::Direct(Call::Delete)),
    ("doctor/types", Drive::Direct(Call::Examine)),
    ("doctor/stage", Drive::Direct(Call::Examine)),
    ("doctor/side", Drive::Direct(Call::Examine)),
    ("doctor/permits", Drive::Direct(Call::Examine)),
    ("doctor/blocked", Drive::Direct(Call::Examine)),
    ("doctor/jobs", Drive::Direct(Call::Examine)),
    ("doctor/ended", Drive::Direct(Call::Examine)),
    ("doctor/kv", Drive::Direct(Call::Examine)),
    ("doctor/outbox", Drive::Direct(Call::Repair)),
];

struct Walk<'s> {
    context: &'s Context,
    scene: &'s Scene,
    address: SocketAddr,
    client: Client,
    direct: Direct<'s>,
    jobs: u64,
}

pub(super) fn walked(context: &Context) -> anyhow::Result<Outcome> {
    let policy = Policy { resume_max: Duration::from_secs(3), ..Policy::default() };
    let setting = Setting {
        is_proxied: true,
        runners: 1,
        lease_ms: LEASE_MS,
        has_load: false,
        policy,
        ..Setting::default()
    };
    let scene = Scene::start(context, setting)?;
    let (address, client) = (scene.fleet.address(0)?, Client::new());
    let direct = Direct::connect(&context.runtime, &scene.redis, &scene.proxy()?.url())?;
    let mut walk = Walk { context, scene: &scene, address, client, direct, jobs: 0 };
    let (mut cuts, mut problems) = (Vec::new(), Vec::new());
    for (verb, drive) in VERBS {
        match walk.verb(verb, *drive) {
            Ok(count) => cuts.push((*verb, count)),
            Err(error) => problems.push(format!("{verb}: {error:#}")),
        }
    }
    let mut verdict = scene.finish()?;
    let sum: usize = cuts.iter().map(|(_, count)| count).sum();
    let each = cuts.iter().map(|(verb, count)| format!("{verb} {count}"));
    verdict.notes.push(format!("{sum} cuts ({})", each.collect::<Vec<_>>().join(", ")));
    verdict.problems.extend(problems);
    Ok(Outcome::Judged(Box::new(verdict)))
}

impl Walk<'_> {
    /// Cuts after each byte of the verb's replies, and returns the number of cuts.
    fn verb(&mut self, verb: &str, drive: Drive) -> anyhow::Result<usize> {
        let (digest, _) = duebox_queue::digest_and_keys(verb).context("no such script")?;
        let proxy = self.scene.proxy()?;
        proxy.measure_replies_to(&digest);
        for _ in 0..MEASURES {
            self.drive(drive)?;
        }
        let bytes = proxy.longest_reply();
        ensure!(bytes > 0, "{drive:?} does not call it");
        let step = if self.context.is_short { (bytes / 6).max(1) } else { 1 };
        let mut cuts = 0;
        for after in (0..bytes).step_by(step) {
            let lost = proxy.lost();
            proxy.lose_reply_to(&digest, after);
            let began = Instant::now();
            // Not every drive calls the verb: one that another turn took along does not.
            while proxy.lost() == lost && began.elapsed() < MEET_MAX {
                self.drive(drive).with_context(|| format!("cut after {after} of {bytes} bytes"))?;
            }
            cuts += proxy.lost() - lost;
        }
        Ok(cuts)
    }

    fn drive(&mut self, drive: Drive) -> anyhow::Result<()> {
        self.jobs += 1;
        let id = |plan: &str| format!("{plan}.{}", self.jobs);
        match drive {
            Drive::Push => self.runs(WORK, &id("ack"), json!({})),
            Drive::Delayed => self.runs(WORK, &id("ack"), json!({ "in": "20ms" })),
            Drive::Slow => self.runs(WORK, &id("slow"), json!({})),
            Drive::FollowUp => {
                self.runs(WORK, &id("follow"), json!({}))?;
                self.wait_for(&Name::new(CHILDREN, &child_of(&id("follow"))));
                Ok(())
            }
            Drive::Abandoned => self.abandon(&id("ack")),
            Drive::Wait | Drive::Reload => {
                if matches!(drive, Drive::Reload) {
                    self.scene.fleet.signal(0, "HUP")?;
                }
                std::thread::sleep(Duration::from_millis(300));
                Ok(())
            }
            Drive::Direct(call) => self.direct.drive(call, self.jobs),
            Drive::Pending => self.cancels(&id("cancelled"), Duration::from_millis(300)),
            Drive::Cancel => self.cancels(&id("cancelled"), Duration::ZERO),
            Drive::RunNow => {
                let id = id("ack");
                self.push(WORK, &id, json!({ "in": "1h" }))?;
                let path = format!("/v1/topics/{WORK}/jobs/{id}/run-now");
                self.asked(Method::POST, &path, &json!({}), &[200, 404, 409])?;
                self.wait_for(&Name::new(WORK, &id));
                Ok(())
            }
            Drive::Get => {
                let path = format!("/v1/topics/{WORK}/jobs/none");
                self.asked(Method::GET, &path, &Value::Null, &[404]).map(drop)
            }
            Drive::List => {
                let path = format!("/v1/topics/{WORK}/dead");
                self.asked(Method::GET, &path, &Value::Null, &[200]).map(drop)
            }
            Drive::Pause => {
                for verb in ["pause", "resume"] {
                    let path = format!("/v1/topics/{PULLED}/{verb}");
                    self.asked(Method::POST, &path, &json!({}), &[200, 204])?;
                }
                Ok(())
            }
        }
    }

    /// Pushes a job that is due much later, and cancels it after a while.
    fn cancels(&self, id: &str, after: Duration) -> anyhow::Result<()> {
        self.push(WORK, id, json!({ "in": "1h" }))?;
        std::thread::sleep(after);
        let path = format!("/v1/topics/{WORK}/jobs/{id}");
        self.asked(Method::DELETE, &path, &Value::Null, &[200, 404])?;
        self.asked(Method::GET, &path, &Value::Null, &[404]).map(drop)
    }

    /// Pushes a job and waits until it has run.
    fn runs(&self, topic: &str, id: &str, fields: Value) -> anyhow::Result<()> {
        self.push(topic, id, fields)?;
        self.wait_for(&Name::new(topic, id));
        Ok(())
    }

    fn push(&self, topic: &str, id: &str, fields: Value) -> anyhow::Result<()> {
        let mut job = json!({ "id": id, "payload": "{}" });
        if let (Some(job), Some(fields)) = (job.as_object_mut(), fields.as_object()) {
            job.extend(fields.clone());
        }
        let sent = Instant::now();
        // 409: a push that was answered 503 had been carried out.
        self.asked(Method::POST, &format!("/v1/topics/{topic}/jobs"), &job, &[200, 201, 409])?;
        if !id.starts_with("cancelled") {
            self.scene.ledger.pushed(Name::new(topic, id), Answer::Ok, sent);
        }
        Ok(())
    }

    /// Pulls a job and leaves it, so that its lease is reclaimed, then acks it.
    fn abandon(&self, id: &str) -> anyhow::Result<()> {
        self.push(PULLED, id, json!({}))?;
        let leases = format!("/v1/topics/{PULLED}/leases?wait=2s&max=1&consumer=c");
        let pulled =
            self.asked(Method::POST, &format!("{leases}&lease=20ms"), &json!({}), &[200])?;
        ensure!(pulled["jobs"][0]["id"] == id, "the job is not leased: {pulled}");
        let mut again = Value::Null;
        eventually("the lease is reclaimed", || {
            let path = format!("{leases}&lease=5s");
            again = self.asked(Method::POST, &path, &json!({}), &[200]).unwrap_or_default();
            again["jobs"][0]["id"] == id
        });
        let run = self.scene.ledger.begins(Name::new(PULLED, id), 1, "consumer", None);
        let token = json!({ "token": again["jobs"][0]["token"] });
        self.asked(Method::POST, &format!("/v1/topics/{PULLED}/jobs/{id}/ack"), &token, &[200])?;
        self.scene.ledger.answers(run);
        Ok(())
    }

    fn wait_for(&self, name: &Name) {
        eventually("the job has run", || {
            let books = self.scene.ledger.books();
            let is_its = |run: &crate::ledger::Run| run.name == *name && run.answered.is_some();
            books.runs.iter().rev().take(100).any(is_its)
        });
    }

    /// Sends a request, whose status must be one of these.
    fn asked(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        statuses: &[u16],
    ) -> anyhow::Result<Value> {
        let mut asked = self.asked_once(&method, path, body)?;
        // 503 tells that the command may have been carried out, and to repeat it.
        for _ in 0..REPEATS_MAX {
            if asked.0 == StatusCode::SERVICE_UNAVAILABLE {
                asked = self.asked_once(&method, path, body)?;
            }
        }
        let (status, text) = asked;
        let is_expected =
            |wanted: &u16| StatusCode::from_u16(*wanted).is_ok_and(|code| code == status);
        ensure!(statuses.iter().any(is_expected), "{path}: {status} {text}");
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    fn asked_once(
        &self,
        method: &Method,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<(StatusCode, String)> {
        let url = format!("http://{}{path}", self.address);
        let mut request = self.client.request(method.clone(), url);
        if !body.is_null() {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.context.runtime.block_on(async {
            let response = request.send().await?;
            Ok((response.status(), response.text().await?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_has_every_script() {
        let mut of_row: Vec<&str> = VERBS.iter().map(|(verb, _)| *verb).collect();
        let mut all: Vec<&str> = duebox_queue::script_paths().collect();
        of_row.sort_unstable();
        all.sort_unstable();
        assert_eq!(of_row, all);
    }
}
