//! Which ended jobs are meant: those of a class, or of a span of time. The same words for listing,
//! requeueing and forgetting them.

use std::time::Duration;

use clap::{ArgGroup, Args};
use duebox_job::{FailureClass, JobId, TopicName, parse_duration};
use duebox_queue::{Cursor, DeadQuery, PageOrder, PageQuery, Queue};

use super::failure::Failure;
use crate::cli::value;

/// A span of time, counted back from now by the clock of Redis.
#[derive(Args, Default)]
pub(crate) struct SpanArgs {
    /// Only those that ended longer ago than this, such as 90s or 7d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Only those that ended not longer ago than this
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_duration)]
    newer_than: Option<Duration>,
}

/// A class, and a span of time.
#[derive(Args, Default)]
pub(crate) struct DeadArgs {
    /// Only those that died of this: trap, timeout, nack, drop, expired …
    #[arg(long, value_name = "CLASS", value_parser = value::class)]
    class: Option<FailureClass>,
    #[command(flatten)]
    span: SpanArgs,
}

/// The dead jobs of a topic that something is done to.
#[derive(Args)]
#[command(group = ArgGroup::new("chosen").args(["ids", "all", "class", "older_than", "newer_than"]).required(true).multiple(true))]
pub(crate) struct ChosenArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    pub(crate) topic: TopicName,
    /// The ids of dead jobs
    #[arg(value_name = "ID", value_parser = value::any_id)]
    pub(crate) ids: Vec<JobId>,
    /// Every dead job of the topic
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
    /// Jobs to show, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Go on where the page before ended: what it gave as "next"
    #[arg(long, value_name = "PLACE", value_parser = value::cursor)]
    after: Option<Cursor>,
    /// Show what ended first at the top, not what ended last
    #[arg(long)]
    oldest: bool,
}

impl DeadArgs {
    /// True if they mean all.
    pub(crate) fn is_empty(&self) -> bool {
        self.class.is_none() && self.span.older_than.is_none() && self.span.newer_than.is_none()
    }

    /// The dead that are meant, all of them.
    pub(crate) async fn query(&self, queue: &Queue) -> Result<DeadQuery, Failure> {
        Ok(DeadQuery { class: self.class, page: self.span.query(queue).await? })
    }
}

impl SpanArgs {
    /// The jobs of the span, all of them.
    pub(crate) async fn query(&self, queue: &Queue) -> Result<PageQuery, Failure> {
        let Self { older_than, newer_than } = *self;
        if older_than.is_none() && newer_than.is_none() {
            return Ok(PageQuery::default());
        }
        if let (Some(older), Some(newer)) = (older_than, newer_than)
            && older >= newer
        {
            return Err(Failure::bad_input(
                "nothing is older and newer than that",
                "give --older-than the shorter time, as in --older-than 1h --newer-than 2h",
            ));
        }
        let now_ms = queue.now_ms().await?;
        let ago = |span: Duration| {
            now_ms.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
        };
        Ok(PageQuery {
            since_ms: newer_than.map(ago),
            // A job that ended exactly then is not older.
            until_ms: older_than.map(|span| ago(span).saturating_sub(1)),
            ..PageQuery::default()
        })
    }
}

impl PageArgs {
    /// The page of these jobs.
    pub(crate) fn of(&self, all: PageQuery) -> PageQuery {
        PageQuery {
            order: if self.oldest { PageOrder::Oldest } else { PageOrder::Newest },
            after: self.after.clone(),
            limit: usize::from(self.limit),
            ..all
        }
    }
}
