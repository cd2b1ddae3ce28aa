//! `duebox settle`: what came of a job that was pulled.

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
use crate::service::pull_consumer::{Answer, Consumer, RESULT_MAX, Refusal, Said};

/// Say what came of a pulled job
///
/// Under the rules of its topic: a nack waits for the backoff of the job or the topic, and buries the
/// job once its attempts are spent; an ack keeps the id for unique_for and the job for done_retention.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox settle mail 42 1763740800123456 ack
  duebox settle mail 42 1763740800123456 ack --result @report.pdf
  duebox settle mail 42 1763740800123456 nack --reason 'the server is down' --in 5m
  duebox settle mail 42 1763740800123456 drop --reason 'no such address'
  duebox settle mail 42 1763740800123456 release

Exit codes:
  0  settled; the word says what became of the job
  1  the lease is lost, or Redis failed
  2  bad input: nothing has changed")]
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
    /// What came of it
    verdict: VerdictWord,
    /// When it may be tried again (nack: instead of the backoff; release: instead of at once)
    #[arg(long = "in", value_name = "DURATION", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Why, for people (nack, drop)
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// What came out of it (ack): a text, @FILE for a file's content, - for stdin; up to 64KiB
    #[arg(long, value_name = "RESULT|@FILE|-", allow_hyphen_values = true)]
    result: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What came of a job.
#[derive(Clone, Copy, ValueEnum)]
enum VerdictWord {
    /// It is done
    Ack,
    /// It failed: try again later, while it has attempts left
    Nack,
    /// It can never be done: bury it
    Drop,
    /// It was not tried: let others have it; no attempt is spent
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
    let said = args.said()?;
    let SettleArgs { topic: name, id, token, json, .. } = args;
    let answer = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let consumer = Consumer { queue: &queue, name: &name, topic };
        consumer.check(&said).map_err(refused)?;
        Ok(consumer.settle(&id, &token, said).await?)
    })?;
    match answer {
        Answer::Settled(settled) if json => {
            let (topic, id) = (name.as_str(), id.to_string());
            output::print_json(&json!({"topic": topic, "id": id, "result": settled.word()}))?;
            Ok(ExitCode::SUCCESS)
        }
        Answer::Settled(settled) => {
            output::print(&format!("{} {id} in {name}{}", settled.word(), explained(settled)))?;
            Ok(ExitCode::SUCCESS)
        }
        Answer::Lost(job) if json => {
            output::print_json(&lost_json(&name, &id, job.as_deref()))?;
            Ok(ExitCode::from(FAILED))
        }
        Answer::Lost(job) => Err(lost(&name, &id, job.as_deref())),
    }
}

impl SettleArgs {
    /// What is said, if the options fit the verdict.
    fn said(&self) -> Result<Said, Failure> {
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
                format!("{name} says nothing about {}", verdict.name()),
                format!("with {} there may be {}", verdict.name(), allowed.join(" and ")),
            ));
        }
        let reason = || reason.clone().unwrap_or_default();
        Ok(match verdict {
            VerdictWord::Ack => {
                Said::Ack { result: result.as_deref().map(read_result).transpose()? }
            }
            VerdictWord::Nack => Said::Nack { delay: *delay, reason: reason() },
            VerdictWord::Drop => Said::Drop { reason: reason() },
            VerdictWord::Release => Said::Release { delay: delay.unwrap_or_default() },
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

fn refused(refusal: Refusal) -> Failure {
    let hint = match refusal {
        Refusal::ResultNotKept => "leave out --result, or set done_retention in the manifest",
        Refusal::ResultTooLong(_) => "keep it elsewhere, and give its address as the result",
    };
    Failure::bad_input(refusal.to_string(), hint)
}

fn explained(settled: Settled) -> &'static str {
    match settled {
        Settled::Superseded => ": a newer push of the same id waits, and takes its place",
        Settled::Cancelled => ": it was cancelled while you had it, and is gone",
        _ => "",
    }
}

/// A lease that is lost, and who has the job now.
pub(super) fn lost(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Failure {
    let now = match job {
        None => "it is done and forgotten, or was cancelled".to_owned(),
        Some(Job { lease: Some(lease), .. }) => {
            let holder = lease.holder.as_deref().unwrap_or("somebody without a name");
            let until = output::time(lease.expires_at_ms);
            format!("{} has it until {until}, under another token", output::plain(holder))
        }
        Some(job) => format!("it is {} now", job.state.word()),
    };
    Failure::failed(
        format!("the lease of {id} in {topic} is lost: {now}; nothing has changed"),
        "extend leases before they expire (duebox extend), or pull with a longer --lease",
    )
}

/// The same as JSON.
pub(super) fn lost_json(topic: &TopicName, id: &JobId, job: Option<&Job>) -> Value {
    json!({
        "topic": topic.as_str(), "id": id.to_string(), "result": "lost",
        "state": job.map(|job| job.state.word()),
        "lease": job.and_then(|job| job.lease.as_ref()).map(|lease| {
            json!({"holder": lease.holder, "expires_at_ms": lease.expires_at_ms})
        }),
    })
}
