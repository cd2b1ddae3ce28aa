//! Selection of dead and done jobs by class or time range, shared by listing, requeueing and
//! purging.

use std::time::Duration;

use clap::{ArgGroup, Args};
use duebox_job::{FailureClass, JobId, TopicName, parse_duration};
use duebox_queue::{Cursor, DeadQuery, PageOrder, PageQuery, Queue};

use super::failure::Failure;
use crate::cli::value;
use crate::millis::millis;

/// A time range, counted back from now by the clock of Redis.
#[derive(Args, Default)]
pub(crate) struct SpanArgs {
    /// Only jobs that ended longer ago than this, such as 90s or 7d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Only jobs that ended within this duration
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_duration)]
    newer_than: Option<Duration>,
}

/// A class and a time range.
#[derive(Args, Default)]
pub(crate) struct DeadArgs {
    /// Only jobs with this failure class: trap, timeout, nack, drop, expired …
    #[arg(long, value_name = "CLASS", value_parser = value::class)]
    class: Option<FailureClass>,
    #[command(flatten)]
    span: SpanArgs,
}

/// The dead jobs to act on.
#[derive(Args)]
#[command(group = ArgGroup::new("chosen").args(["ids", "all", "class", "older_than", "newer_than"]).required(true).multiple(true))]
pub(crate) struct ChosenArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    pub(crate) topic: TopicName,
    /// Ids of dead jobs
    #[arg(value_name = "ID", value_parser = value::any_id)]
    pub(crate) ids: Vec<JobId>,
    /// All dead jobs of the topic
    #[arg(long, conflicts_with_all = ["ids", "class", "older_than", "newer_than"])]
    all: bool,
    #[command(flatten)]
    pub(crate) which: DeadArgs,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A page of a list.
#[derive(Args)]
pub(crate) struct PageArgs {
    /// Number of jobs to show, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue after a previous page: its "next"
    #[arg(long, value_name = "PLACE", value_parser = value::cursor)]
    after: Option<Cursor>,
    /// Show the oldest first
    #[arg(long)]
    oldest: bool,
}

impl DeadArgs {
    /// True if nothing is filtered.
    pub(crate) fn is_empty(&self) -> bool {
        self.class.is_none() && self.span.older_than.is_none() && self.span.newer_than.is_none()
    }

    /// The query for all selected dead jobs.
    pub(crate) async fn query(&self, queue: &Queue) -> Result<DeadQuery, Failure> {
        Ok(DeadQuery { class: self.class, page: self.span.query(queue).await? })
    }
}

impl SpanArgs {
    /// The query for all jobs of the time range.
    pub(crate) async fn query(&self, queue: &Queue) -> Result<PageQuery, Failure> {
        let Self { older_than, newer_than } = *self;
        if older_than.is_none() && newer_than.is_none() {
            return Ok(PageQuery::default());
        }
        if let (Some(older), Some(newer)) = (older_than, newer_than)
            && older >= newer
        {
            return Err(Failure::bad_input(
                "--older-than and --newer-than exclude each other",
                "pass the shorter duration to --older-than, as in --older-than 1h --newer-than 2h",
            ));
        }
        let now_ms = queue.now_ms().await?;
        let ago = |span: Duration| now_ms.saturating_sub(millis(span));
        Ok(PageQuery {
            since_ms: newer_than.map(ago),
            // A job that ended exactly then is not older.
            until_ms: older_than.map(|span| ago(span).saturating_sub(1)),
            ..PageQuery::default()
        })
    }
}

impl PageArgs {
    /// This page of the query.
    pub(crate) fn of(&self, all: PageQuery) -> PageQuery {
        PageQuery {
            order: if self.oldest { PageOrder::Oldest } else { PageOrder::Newest },
            after: self.after.clone(),
            limit: usize::from(self.limit),
            ..all
        }
    }
}
