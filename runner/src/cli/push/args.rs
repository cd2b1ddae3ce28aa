//! What can be said to `duebox push`, and the options of a job that come of it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use duebox_job::{
    ATTEMPTS_MAX, Backoff, CRASHES_MAX, JobId, Options, Priority, SNOOZES_MAX, TopicName,
    parse_duration,
};
use duebox_queue::IfExists;

use crate::cli::support::failure::Failure;
use crate::cli::value;

/// Push jobs: one, one for each line, or many that differ
///
/// The job is stored in Redis and runs when it falls due. Without --in and --at it gets the delay
/// that the topic has in the manifest. The topic must be in the manifest, by name or by a pattern.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox push order.close '{\"order\":42}' --in 30m --id 42
  duebox push report @body.json --at 2026-12-24T18:00:00+01:00
  duebox push mail '{}' --priority high --key user-7 --header traceparent=00-4bf9-b7ad-01
  seq 1 100000 | duebox push squares - --lines
  duebox push order.close --jobs jobs.ndjson

Exit codes:
  0  pushed (or kept, with --if-exists keep)
  1  some were not: the id exists or is held, the topic is full, or Redis failed
  2  bad input: nothing was pushed")]
pub(crate) struct PushArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    pub(crate) topic: TopicName,
    /// The payload: a text, @FILE for a file's content, - for stdin; none for an empty one
    ///
    /// The payload is bytes; the handler gets them as they are. For a text that starts with @ use -.
    #[arg(value_name = "PAYLOAD|@FILE|-")]
    pub(crate) payload: Option<String>,
    /// Run it after this while, such as 250ms, 30m, 1h30m or 7d
    #[arg(
        long = "in",
        value_name = "DURATION",
        conflicts_with = "at",
        allow_hyphen_values = true,
        value_parser = parse_duration
    )]
    pub(crate) delay: Option<Duration>,
    /// Run it at this time: RFC 3339 with its zone or offset, or unix milliseconds
    ///
    /// Such as 2026-12-24T18:00:00Z, 2026-12-24T18:00[Asia/Shanghai] or 1782324000000. A time in
    /// the past, or more than ten years away, is refused.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// The job's id, 1 to 256 visible ASCII characters; without it one is made
    ///
    /// Ids are unique among the live jobs of a topic: pushing an id that is alive does what
    /// --if-exists says. With --lines the ids are ID-1, ID-2 …, so a push that broke off can be
    /// repeated safely. Made ids are in the order of time.
    #[arg(long, value_name = "ID", value_parser = value::id)]
    pub(crate) id: Option<JobId>,
    #[command(flatten)]
    pub(crate) options: OptionArgs,
    /// What to do about an id that is alive, instead of what the topic says
    #[arg(long, value_name = "WORD")]
    pub(crate) if_exists: Option<IfExistsWord>,
    /// Push one job for each line of the file or of stdin
    ///
    /// Goes out in batches of 1,000. Each line, without its line feed, is a payload; an empty line
    /// is an empty one.
    #[arg(long, requires = "payload")]
    pub(crate) lines: bool,
    /// Push the jobs of a file, or of stdin with -: a JSON object a line
    ///
    /// {"id", "in" | "at", "payload" | "payload_base64", "options"}, all of them optional. A payload
    /// is a text, or any other JSON, which is passed on as it is written. What became of each line is
    /// said in a line; one that is refused does not keep the others back.
    #[arg(
        long,
        value_name = "FILE|-",
        conflicts_with_all = ["payload", "delay", "at", "id", "lines", "OptionArgs"]
    )]
    pub(crate) jobs: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What the job sets over its topic.
#[derive(Args, Default)]
pub(crate) struct OptionArgs {
    /// Wall clock of one attempt, 1ms to 24h, instead of the topic's
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = value::ttr)]
    ttr: Option<Duration>,
    /// Attempts in all, instead of the topic's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    max_attempts: Option<u32>,
    /// The waits between attempts, instead of the topic's: 10s, or a list such as 2m,10m,1h
    ///
    /// The last serves for all attempts that follow.
    #[arg(long, value_name = "DURATIONS", allow_hyphen_values = true, value_parser = value::backoff)]
    backoff: Option<Backoff>,
    /// How often the handler may put the job off, instead of the topic's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(SNOOZES_MAX)))]
    max_snoozes: Option<u32>,
    /// How many runs may end with the runner's death before the job is dead, instead of the topic's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CRASHES_MAX)))]
    max_crashes: Option<u32>,
    /// How long after it fell due the job may start, instead of the topic's; 0s is for ever
    ///
    /// A job that was not started by then is dead with class expired.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Its rank among the due jobs of the topic: high, normal or low
    #[arg(long, value_name = "WORD", value_parser = value::priority)]
    priority: Option<Priority>,
    /// Jobs of one key run one after the other, where the topic has per_key_concurrency
    #[arg(long, value_name = "KEY", value_parser = value::key)]
    key: Option<String>,
    /// A header for the handler; may be given again
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = value::pair)]
    headers: Vec<(String, String)>,
}

/// What a push does about an id that is alive.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum IfExistsWord {
    /// Refuse the push
    Reject,
    /// Leave the live job and count it as success
    Keep,
    /// Replace it; where it runs now, follow it
    Replace,
}

impl IfExistsWord {
    pub(crate) fn meaning(self) -> IfExists {
        match self {
            Self::Reject => IfExists::Reject,
            Self::Keep => IfExists::Keep,
            Self::Replace => IfExists::Replace,
        }
    }
}

impl OptionArgs {
    /// The options of a job that sets these over its topic.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        if let Some(ttr) = self.ttr {
            options = options.with_ttr(ttr);
        }
        if let Some(max_attempts) = self.max_attempts {
            options = options.with_max_attempts(max_attempts);
        }
        if let Some(backoff) = &self.backoff {
            options = options.with_backoff(backoff);
        }
        if let Some(max_snoozes) = self.max_snoozes {
            options = options.with_max_snoozes(max_snoozes);
        }
        if let Some(max_crashes) = self.max_crashes {
            options = options.with_max_crashes(max_crashes);
        }
        if let Some(ttl) = self.ttl {
            options = options.with_ttl(ttl);
        }
        if let Some(priority) = self.priority {
            options = options.with_priority(priority);
        }
        let with_texts = || {
            let mut options = match &self.key {
                Some(key) => options.with_key(key)?,
                None => options,
            };
            for (name, value) in &self.headers {
                options = options.with_header(name, value)?;
            }
            Ok(options)
        };
        with_texts().map_err(|error: duebox_job::OptionError| {
            Failure::bad_input(error.to_string(), "correct --key or --header")
        })
    }
}
