//! `duebox replay`: runs the last attempts of dead jobs again with what they read, bit for bit, on the same
//! module or on another one.

mod report;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use duebox_job::{JobId, TopicName};
use duebox_queue::{Queue, RECORDINGS_MAX, Requeued};

use self::report::{ReplayReport, ReplaySummary};
use self::run::Replayer;
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{Common, value};
use crate::manifest::Manifest;

/// Replay the last attempts of dead jobs, bit for bit
///
/// A topic with record = "failures" keeps with a dead job what its last attempt read: times, random
/// bytes, HTTP responses and the store's answers. A replay gives them back, so nothing is sent and
/// nothing is written. The same module reaches the same end with the same figures. Another module
/// (--wasm) reaches its own end, or the first request that the recorded attempt did not send.
#[derive(Args)]
#[command(group = ArgGroup::new("which").args(["id", "last"]).required(true))]
#[command(after_help = "\
Examples:
  duebox replay order.close 42
  duebox replay order.close 42 --wasm target/order_close.wasm --requeue
  duebox replay order.close --last 1000 --wasm target/order_close.wasm

Exit codes:
  0  each attempt reached its recorded end, or is acked now
  1  one reached another end, or cannot be replayed
  2  bad input: nothing was replayed")]
pub(super) struct ReplayArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The id of a dead job
    #[arg(value_parser = value::any_id)]
    id: Option<JobId>,
    /// Replay the last N deaths that are recorded, 1 to 1000 a shard
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RECORDINGS_MAX as i64))]
    last: Option<u32>,
    /// The module to run instead of the topic's handler
    #[arg(long, value_name = "FILE")]
    wasm: Option<PathBuf>,
    /// Make a job ready again if it is acked in the replay
    #[arg(long)]
    requeue: bool,
    /// Print JSON: one object for each job, and with --last a summary
    #[arg(long)]
    json: bool,
}

pub(super) fn replay(common: &Common, args: &ReplayArgs) -> Result<ExitCode, Failure> {
    let manifest = Manifest::load_with(common.manifest(), &common.environment())?;
    let replayer = Replayer::new(&manifest, &args.topic, args.wasm.as_deref())?;
    target::block_on(async {
        let queue = target::connect(&manifest).await?;
        match &args.id {
            Some(id) => replay_one(&queue, &replayer, args, id).await,
            None => replay_last(&queue, &replayer, args).await,
        }
    })
}

async fn replay_one(
    queue: &Queue,
    replayer: &Replayer,
    args: &ReplayArgs,
    id: &JobId,
) -> Result<ExitCode, Failure> {
    let Some(mut report) = replayer.replay(queue, id).await? else {
        return Err(Failure::failed(
            format!("job {id} of {} has no recording", args.topic),
            "only jobs that died while their topic had record = \"failures\" have one; \
             duebox get shows the state of the job",
        ));
    };
    requeue(queue, args, id, &mut report).await?;
    print(args.json, &report)?;
    Ok(ExitCode::from(if report.is_fine() { 0 } else { FAILED }))
}

async fn replay_last(
    queue: &Queue,
    replayer: &Replayer,
    args: &ReplayArgs,
) -> Result<ExitCode, Failure> {
    let most = args.last.unwrap_or(1) as usize;
    let mut summary = ReplaySummary::default();
    for id in queue.last_recorded(&args.topic, most).await? {
        // A job that was requeued or deleted meanwhile is left out.
        let Some(mut report) = replayer.replay(queue, &id).await? else { continue };
        requeue(queue, args, &id, &mut report).await?;
        summary.add(&report);
        if args.json || !report.is_same() {
            print(args.json, &report)?;
        }
    }
    match args.json {
        true => output::print_json(&summary)?,
        false => output::print(&summary.describe())?,
    }
    Ok(ExitCode::from(if summary.is_fine() { 0 } else { FAILED }))
}

fn print(json: bool, report: &ReplayReport) -> Result<(), Failure> {
    match json {
        true => output::print_json(report),
        false => output::print(&report.describe()),
    }
}

async fn requeue(
    queue: &Queue,
    args: &ReplayArgs,
    id: &JobId,
    report: &mut ReplayReport,
) -> Result<(), Failure> {
    if args.requeue && report.is_acked() {
        let words = queue.requeue(&args.topic, std::slice::from_ref(id)).await?;
        report.requeued = words.first().copied().map(Requeued::word);
    }
    Ok(())
}
