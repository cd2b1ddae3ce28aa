//! `duebox pull` and `duebox extend`: lease jobs to a consumer and extend the leases.

use std::process::ExitCode;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use duebox_job::{JobId, TopicName, parse_duration};
use duebox_queue::{Lease, Pulled, Token};
use serde_json::json;

use super::settle::{lost, lost_json};
use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{Common, value};
use crate::manifest::Topic;
use crate::service::leased_job::{LeasedJob, max_attempts, token_text};
use crate::service::pull_consumer::{Consumer, ConsumerPull, PullFailure};

/// Characters of a payload in a table.
const SHOWN_MAX: usize = 60;

/// Lease due jobs of a topic, or wait for one
///
/// For topics without a handler. The jobs are yours until their leases expire. Settle each with its
/// id and token (duebox settle), or extend its lease (duebox extend). A job that is not settled in
/// time becomes ready for other consumers, and counts as a crash (max_crashes).
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox pull mail
  duebox pull mail -n 100 --wait 60s --lease 5m --json
  duebox pull report --min-age 3s --bytes 1MiB --consumer print-room --json | ./print.sh

Exit codes:
  0  jobs were leased, or none fell due within the wait
  1  Redis failed
  2  bad input, for example a topic that is not in the manifest")]
pub(super) struct PullArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// Maximum number of jobs, 1 to 1000
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    jobs: usize,
    /// Maximum total size of the payloads; one job is always returned
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: Option<u64>,
    /// How long to wait if no job is due, at most 60s
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    wait: Duration,
    /// Only jobs that have been due for at least this long
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    min_age: Duration,
    /// Duration of the leases, 1ms to 24h
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    lease: Duration,
    /// The name shown as the holder of the jobs; default: this host and process
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Print JSON: one object per line for each job
    #[arg(long)]
    json: bool,
}

/// Extend the lease of a pulled job
///
/// Prints the job's new token; the old one becomes invalid. Repeating the command is safe.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox extend mail 42 1763740800123456 5m

Exit codes:
  0  extended; the new token is printed
  1  the lease is lost, or Redis failed
  2  bad input")]
pub(super) struct ExtendArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The job's id
    #[arg(value_parser = value::any_id)]
    id: JobId,
    /// The token that came with the job
    #[arg(value_parser = token)]
    token: Token,
    /// How much to add to the lease, 1ms to 24h
    #[arg(value_name = "DURATION", value_parser = extension)]
    by: Duration,
    /// The name shown as the holder of the job; default: this host and process
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn token(text: &str) -> Result<Token, String> {
    text.parse().map_err(|error: duebox_queue::TokenError| error.to_string())
}

fn extension(text: &str) -> Result<Duration, String> {
    let by = parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if range.contains(&by) {
        Ok(by)
    } else {
        Err("an extension must be from 1ms to 24h".to_owned())
    }
}

fn size(text: &str) -> Result<u64, String> {
    let form = "write a number with a unit (B, KiB, MiB), such as 1MiB";
    let ByteSize(bytes) = text.parse().map_err(|_| format!("{text:?} is not a size; {form}"))?;
    if bytes == 0 { Err("a size must be at least 1 byte".to_owned()) } else { Ok(bytes) }
}

/// The name of this host and process.
fn own_name() -> String {
    let host = rustix::system::uname();
    let host: String =
        host.nodename().to_string_lossy().chars().filter(char::is_ascii_graphic).take(64).collect();
    let host = if host.is_empty() { "duebox" } else { &host };
    format!("{host}-{}", std::process::id())
}

pub(super) fn pull(common: &Common, args: PullArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = target::topic(&manifest, &args.topic)?;
    let consumer_name = args.consumer.unwrap_or_else(own_name);
    let options = ConsumerPull {
        consumer: &consumer_name,
        jobs: args.jobs,
        bytes_max: args.bytes,
        min_age: args.min_age,
        lease: args.lease,
        wait: args.wait,
        poll: manifest.redis.poll,
    };
    let pulled = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let consumer = Consumer { queue: &queue, name: &args.topic, topic };
        consumer.pull(&options).await.map_err(|failure| match failure {
            PullFailure::Options(error) => {
                Failure::bad_input(error.to_string(), "see duebox help pull")
            }
            PullFailure::Queue(error) => Failure::from(error),
        })
    })?;
    if args.json {
        let mut jobs = pulled.leases.iter().map(|lease| LeasedJob::of(lease, topic));
        jobs.try_for_each(|job| output::print_json(&job))?;
    } else {
        output::print(&table(&args.topic, &pulled, topic))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(name: &TopicName, pulled: &Pulled, topic: &Topic) -> String {
    if pulled.leases.is_empty() {
        return match pulled {
            Pulled { paused: true, .. } => format!("no jobs: {name} is paused"),
            Pulled { limited: true, .. } => {
                format!("no jobs: {name} is at its rate or max_running")
            }
            _ => format!("no job of {name} is due"),
        };
    }
    let row = |lease: &Lease| {
        vec![
            output::one_line(&lease.id.to_string()),
            token_text(&lease.token),
            format!("{} of {}", lease.failures.saturating_add(1), max_attempts(lease, topic)),
            output::time(lease.due_at_ms),
            shown_payload(&lease.payload),
        ]
    };
    let rows: Vec<_> = pulled.leases.iter().map(row).collect();
    output::table(&["id", "token", "attempt", "due", "payload"], &rows)
}

/// The first line of a payload for a table.
fn shown_payload(payload: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(payload) else {
        return format!("{} bytes of binary data", payload.len());
    };
    let line = text.lines().next().unwrap_or_default();
    let shown: String = line.chars().take(SHOWN_MAX).collect();
    let is_cut = shown.len() < text.trim_end().len();
    format!("{}{}", output::one_line(&shown).replace('\t', " "), if is_cut { "…" } else { "" })
}

pub(super) fn extend(common: &Common, args: ExtendArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let topic = target::topic(&manifest, &args.topic)?;
    let ExtendArgs { topic: name, id, token, by, consumer, json } = args;
    let consumer_name = consumer.unwrap_or_else(own_name);
    let extended = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let consumer = Consumer { queue: &queue, name: &name, topic };
        consumer.extend(&consumer_name, &id, &token, by).await.map_err(|failure| match failure {
            PullFailure::Options(error) => {
                Failure::bad_input(error.to_string(), "see duebox help extend")
            }
            PullFailure::Queue(error) => Failure::from(error),
        })
    })?;
    match extended {
        Ok(token) if json => {
            output::print_json(&json!({
                "topic": name.as_str(), "id": id.to_string(), "result": "extended",
                "token": token_text(&token), "lease_expires_at_ms": token.expires_at_us() / 1_000,
            }))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(token) => {
            output::print(&token_text(&token))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(job) if json => {
            output::print_json(&lost_json(&name, &id, job.as_deref()))?;
            Ok(ExitCode::from(FAILED))
        }
        Err(job) => Err(lost(&name, &id, job.as_deref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_extensions_have_bounds() {
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert!(size("0").is_err() && size("much").is_err());
        assert_eq!(extension("24h"), Ok(Duration::from_secs(86_400)));
        assert!(extension("0s").is_err() && extension("25h").is_err());
    }

    #[test]
    fn a_payload_is_shown_on_one_line() {
        assert_eq!(shown_payload(b"{\"order\":42}"), "{\"order\":42}");
        assert_eq!(shown_payload(b"a\nb"), "a…");
        assert_eq!(shown_payload(b"\x1b[2J"), "\\u{1b}[2J");
        assert_eq!(shown_payload(b"\xff\x00"), "2 bytes of binary data");
        assert_eq!(shown_payload("ä".repeat(99).as_bytes()).chars().count(), SHOWN_MAX + 1);
    }

    #[test]
    fn every_process_has_a_name() {
        let name = own_name();
        assert!(name.ends_with(&std::process::id().to_string()) && !name.contains(' '), "{name}");
    }
}
