//! `duebox settle`: settles a pulled job with a verdict.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use duebox_job::{JobId, TopicName, parse_duration};
use duebox_queue::{Job, Settled, Token};
use serde_json::{Value, json};

use super::support::failure::{FAILED, Failure};
use super::support::payload::Source;
use super::support::{output, target};
use super::{Common, pull, value};
use crate::service::pull_consumer::{
    Consumer, ConsumerVerdict, InvalidVerdict, RESULT_MAX, SettleResponse,
};

/// Settle a pulled job
///
/// The settings of the topic apply. A nack waits for the backoff of the job or the topic, and
/// buries the job once its attempts are spent. An ack reserves the id for unique_for and keeps the
/// job for done_retention.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox settle mail 42 1763740800123456 ack
  duebox settle mail 42 1763740800123456 ack --result @report.pdf
  duebox settle mail 42 1763740800123456 nack --reason 'the server is down' --in 5m
  duebox settle mail 42 1763740800123456 drop --reason 'no such address'
  duebox settle mail 42 1763740800123456 release

Exit codes:
  0  settled; the output names the new state
  1  the lease is lost, or Redis failed
  2  bad input: nothing was changed")]
pub(super) struct SettleArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The job's id
    #[arg(value_parser = value::any_id)]
    id: JobId,
    /// The token that came with the job, or with its last extension
    #[arg(value_parser = pull::token)]
    token: Token,
    /// The verdict
    verdict: VerdictWord,
    /// Delay before the next attempt (nack: instead of the backoff; release: instead of none)
    #[arg(long = "in", value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// The reason, for people (nack, drop)
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// The result (ack): a text, @FILE for a file's content, - for stdin; at most 64KiB
    #[arg(long, value_name = "RESULT|@FILE|-", allow_hyphen_values = true)]
    result: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A verdict on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum VerdictWord {
    /// It is done
    Ack,
    /// It failed: retry later, while attempts are left
    Nack,
    /// It can never succeed: bury it
    Drop,
    /// It was not tried: return it; no attempt is spent
    Release,
}

impl VerdictWord {
    fn name(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Drop => "drop",
            Self::Release => "release",
        }
    }
}

pub(super) fn settle(common: &Common, args: SettleArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = target::topic(&manifest, &args.topic)?;
    let verdict = args.verdict()?;
    let SettleArgs { topic: name, id, token, json, .. } = args;
    let answer = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let consumer = Consumer { queue: &queue, name: &name, topic };
        consumer.check(&verdict).map_err(refused)?;
        Ok(consumer.settle(&id, &token, verdict).await?)
    })?;
    match answer {
        SettleResponse::Settled(settled) if json => {
            let (topic, id) = (name.as_str(), id.to_string());
            output::print_json(&json!({"topic": topic, "id": id, "result": settled.word()}))?;
            Ok(ExitCode::SUCCESS)
        }
        SettleResponse::Settled(settled) => {
            output::print(&format!("{} {id} in {name}{}", settled.word(), explained(settled)))?;
            Ok(ExitCode::SUCCESS)
        }
        SettleResponse::Lost(job) if json => {
            output::print_json(&lost_json(&name, &id, job.as_deref()))?;
            Ok(ExitCode::from(FAILED))
        }
        SettleResponse::Lost(job) => Err(lost(&name, &id, job.as_deref())),
    }
}

impl SettleArgs {
    /// The verdict, if the options fit it.
    fn verdict(&self) -> Result<ConsumerVerdict, Failure> {
        let Self { verdict, delay, reason, result, .. } = self;
        let allowed: &[&str] = match verdict {
            VerdictWord::Ack => &["--result"],
            VerdictWord::Nack => &["--in", "--reason"],
            VerdictWord::Drop => &["--reason"],
            VerdictWord::Release => &["--in"],
        };
        let given = [
            ("--in", delay.is_some()),
            ("--reason", reason.is_some()),
            ("--result", result.is_some()),
        ];
        let misplaced = given.iter().find(|(name, is_given)| *is_given && !allowed.contains(name));
        if let Some((name, _)) = misplaced {
            return Err(Failure::bad_input(
                format!("{name} does not apply to {}", verdict.name()),
                format!("{} takes only {}", verdict.name(), allowed.join(" and ")),
            ));
        }
        let reason = || reason.clone().unwrap_or_default();
        Ok(match verdict {
            VerdictWord::Ack => {
                ConsumerVerdict::Ack { result: result.as_deref().map(read_result).transpose()? }
            }
            VerdictWord::Nack => ConsumerVerdict::Nack { delay: *delay, reason: reason() },
            VerdictWord::Drop => ConsumerVerdict::Drop { reason: reason() },
            VerdictWord::Release => ConsumerVerdict::Release { delay: delay.unwrap_or_default() },
        })
    }
}

fn read_result(text: &str) -> Result<Bytes, Failure> {
    let source = Source::new(Some(text.to_owned()));
    let mut result = Vec::new();
    let mut limited = source.open()?.take(RESULT_MAX as u64 + 1);
    limited.read_to_end(&mut result).map_err(|error| source.unreadable(&error))?;
    Ok(Bytes::from(result))
}

fn refused(refusal: InvalidVerdict) -> Failure {
    let hint = match refusal {
        InvalidVerdict::ResultNotKept => "omit --result, or set done_retention in the manifest",
        InvalidVerdict::ResultTooLong(_) => {
            "store it elsewhere, and pass its address as the result"
        }
    };
    Failure::bad_input(refusal.to_string(), hint)
}

fn explained(settled: Settled) -> &'static str {
    match settled {
        Settled::Superseded => ": a newer job with the same id takes its place",
        Settled::Cancelled => ": it was cancelled while it was leased, and is deleted",
        _ => "",
    }
}

/// The error for a lost lease; it names the current holder of the job.
pub(super) fn lost(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Failure {
    let now = match job {
        None => "it is done and was not kept, or was cancelled".to_owned(),
        Some(Job { lease: Some(lease), .. }) => {
            let holder = lease.holder.as_deref().unwrap_or("an unnamed consumer");
            let until = output::time(lease.expires_at_ms);
            format!("{} holds it until {until} with another token", output::one_line(holder))
        }
        Some(job) => format!("it is now {}", job.state.word()),
    };
    Failure::failed(
        format!("the lease of {id} in {topic} is lost: {now}; nothing was changed"),
        "extend leases before they expire (duebox extend), or pull with a longer --lease",
    )
}

/// The JSON output for a lost lease.
pub(super) fn lost_json(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Value {
    json!({
        "topic": topic.as_str(), "id": id.to_string(), "result": "lost",
        "state": job.map(|job| job.state.word()),
        "lease": job.and_then(|job| job.lease.as_ref()).map(|lease| {
            json!({"holder": lease.holder, "expires_at_ms": lease.expires_at_ms})
        }),
    })
}
