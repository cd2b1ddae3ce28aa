//! `duebox doctor`: finds and repairs inconsistent data in Redis, and examines Redis itself.

mod redis;
mod sentinels;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use duebox_job::{FailureClass, Policy, Shard, TopicName};
use duebox_queue::{Checkup, Finding, Queue, Unexamined};
use serde::Serialize;

use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{Common, value};
use crate::manifest::Manifest;

/// Find and repair inconsistent data in Redis
///
/// Checks every topic in Redis or in the manifest: payloads without a state, invalid due times, ids
/// without a payload, keys of a wrong type, inconsistent permits and queues of keys, and more.
/// Changes nothing without --repair. It is safe while producers and runners work.
/// With --redis it examines the server instead: version, role, persistence, eviction, memory, latency,
/// clock, TLS, the sentinels and the permissions of its user.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox doctor
  duebox doctor order.close --repair
  duebox doctor --redis
  duebox doctor --json | jq -r 'select(.kind == \"orphan\") | .subject'

Exit codes:
  0  no findings, or all were repaired; with --redis, a server that can hold jobs
  1  findings are left, the server cannot hold jobs, or Redis failed
  2  bad input")]
pub(super) struct DoctorArgs {
    /// Only these topics
    #[arg(value_name = "TOPIC", value_parser = value::topic)]
    topics: Vec<TopicName>,
    /// Repair the findings: bury orphans, remove stray entries, move aside keys of a wrong type
    #[arg(long)]
    repair: bool,
    /// Examine the server that the manifest names, not the data in it
    #[arg(long, conflicts_with_all = ["topics", "repair"])]
    redis: bool,
    /// Print JSON: one object per line for each finding, then one with the totals; with --redis one object
    #[arg(long)]
    json: bool,
}

/// The totals.
#[derive(Debug, Default, Clone, Serialize)]
struct Totals {
    topics: u64,
    findings: u64,
    repaired: u64,
    /// What could not be checked, by topic.
    unexamined: Vec<String>,
    /// Shards of topics whose check Redis refused.
    refused: u64,
}

/// Prints findings as they come and counts them. The first failed print ends the output.
struct Findings {
    json: bool,
    sum: Totals,
    printed: Result<(), Failure>,
}

pub(super) fn doctor(common: &Common, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    if args.redis {
        return redis::examine(&manifest, args.json);
    }
    let empty = Findings { json: args.json, sum: Totals::default(), printed: Ok(()) };
    let report = RefCell::new(empty);
    target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let is_served = |topic: &TopicName| manifest.topic_for(topic).is_some();
        for shard in &shards(&queue, &manifest, args).await? {
            examine(&queue, &manifest, shard, args.repair, &report).await?;
        }
        // The repair may have removed the last keys of a topic.
        if args.topics.is_empty() {
            let mut add = |finding| report.borrow_mut().add(&finding);
            queue.examine_topics(args.repair, is_served, &mut add).await?;
        }
        Ok(())
    })?;
    let Findings { sum, printed, .. } = report.into_inner();
    printed?;
    let left = sum.findings - sum.repaired + sum.refused;
    if args.json {
        output::print_json(&sum)?;
        return Ok(ExitCode::from(if left == 0 { 0 } else { FAILED }));
    }
    output::print(&sum.describe())?;
    match left {
        0 => Ok(ExitCode::SUCCESS),
        _ if args.repair => Err(Failure::failed(
            format!("{} left", counted(left, "finding is", "findings are")),
            "these cannot be repaired automatically; https://github.com/duebox/duebox/blob/main/docs/guide/doctor.md explains each kind",
        )),
        _ => Err(Failure::failed(
            format!("{}; nothing was changed", counted(left, "finding", "findings")),
            "review them, then repair them with: duebox doctor --repair",
        )),
    }
}

/// The shards to check: those of the topics named, or all that are known.
async fn shards(
    queue: &Queue,
    manifest: &Manifest,
    args: &DoctorArgs,
) -> Result<BTreeSet<Shard>, Failure> {
    let mut shards: BTreeSet<Shard> = args.topics.iter().map(TopicName::first_shard).collect();
    for name in &args.topics {
        target::known_topic(manifest, queue, name).await?;
    }
    if shards.is_empty() {
        shards.extend(queue.examine_topics(false, |_| true, &mut drop).await?);
        shards.extend(manifest.topics.keys().map(TopicName::first_shard));
    }
    let topics: BTreeSet<TopicName> = shards.iter().map(|shard| shard.topic().clone()).collect();
    for topic in topics {
        match queue.shards(&topic).await {
            Ok(all) => shards.extend(all.all()),
            // Its `meta` is to be repaired: the shards that were found are checked.
            Err(error) if error.is_of_topic() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(shards)
}

async fn examine(
    queue: &Queue,
    manifest: &Manifest,
    shard: &Shard,
    repair: bool,
    report: &RefCell<Findings>,
) -> Result<(), Failure> {
    let discards = |class| {
        let bound = manifest.topic_for(shard.topic());
        bound.is_some_and(|topic| topic.policy(class) == Policy::Discard)
    };
    let checkup = Checkup {
        repair,
        bury_orphans: !discards(FailureClass::Orphan),
        bury_bad_dues: !discards(FailureClass::BadDue),
    };
    let mut add = |finding| report.borrow_mut().add(&finding);
    let examined = queue.examine(shard, checkup, &mut add).await;
    let mut report = report.borrow_mut();
    report.sum.topics += u64::from(shard.number() == 0);
    match examined {
        Ok(unexamined) => {
            let unexamined = unexamined.into_iter().map(|what| not_examined(shard, what));
            report.sum.unexamined.extend(unexamined);
        }
        // The other topics are checked all the same.
        Err(error) if error.is_of_topic() => {
            report.sum.refused += 1;
            report.sum.unexamined.push(format!("{shard}: {error}"));
        }
        Err(error) => return Err(error.into()),
    }
    std::mem::replace(&mut report.printed, Ok(()))
}

fn not_examined(shard: &Shard, what: Unexamined) -> String {
    format!("{shard}: {}", what.reason())
}

impl Findings {
    fn add(&mut self, finding: &Finding) {
        self.sum.findings += 1;
        self.sum.repaired += u64::from(finding.is_repaired());
        if self.printed.is_ok() {
            self.printed = if self.json {
                output::print_json(finding)
            } else {
                output::print(&describe(finding))
            };
        }
    }
}

/// A finding as one line: topic, kind, subject, detail, repair.
fn describe(finding: &Finding) -> String {
    let topic = if finding.topic.is_empty() { "-" } else { &finding.topic };
    let subject = output::one_line(&finding.subject_text());
    let kind = finding.kind.name();
    let mut line = format!("{topic}  {kind}  {subject}: {}", output::one_line(&finding.detail));
    if finding.is_repaired() {
        line.push_str(" → ");
        line.push_str(&output::one_line(&finding.done));
    }
    line
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Totals {
    fn describe(&self) -> String {
        let Self { topics, findings, repaired, unexamined, .. } = self;
        let mut lines: Vec<String> =
            unexamined.iter().map(|what| format!("not checked: {what}")).collect();
        lines.push(match (findings, repaired) {
            (0, _) => format!("{}, no findings", counted(*topics, "topic", "topics")),
            (found, repaired) => format!(
                "{}, {}, {repaired} repaired",
                counted(*topics, "topic", "topics"),
                counted(*found, "finding", "findings")
            ),
        });
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_queue::FindingKind;

    #[test]
    fn a_finding_is_printed_as_one_escaped_line() {
        let mut finding = Finding {
            topic: "a".to_owned(),
            kind: FindingKind::Orphan,
            subject: bytes::Bytes::from_static(b"x\n\x1b[2J"),
            detail: "3 bytes in no stage".to_owned(),
            done: String::new(),
        };
        assert_eq!(describe(&finding), "a  orphan  x\\n\\u{1b}[2J: 3 bytes in no stage");
        finding.done = "buried".to_owned();
        finding.topic.clear();
        assert_eq!(describe(&finding), "-  orphan  x\\n\\u{1b}[2J: 3 bytes in no stage → buried");
    }

    #[test]
    fn the_totals_list_what_was_not_checked() {
        let sum = Totals { topics: 2, ..Totals::default() };
        assert_eq!(sum.describe(), "2 topics, no findings");
        let shard = TopicName::new("a").unwrap().shard(3);
        let unexamined = vec![not_examined(&shard, Unexamined::Permits)];
        let sum = Totals { findings: 3, repaired: 1, unexamined, ..sum };
        let text = sum.describe();
        assert!(text.starts_with("not checked: a#3: more than 1000"), "{text}");
        assert!(text.ends_with("2 topics, 3 findings, 1 repaired"), "{text}");
    }
}
