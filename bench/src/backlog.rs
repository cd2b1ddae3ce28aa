//! The backlog: drain and lateness with a growing number of pending jobs that are not yet due.
//! Plain Redis commands push the pending jobs, as a producer without a client library would. Every
//! one of them must still be there at the end.
//!
//! A Redis hash that grows past a power of two moves to a larger table, one bucket per access, and
//! every access is slower until the move ends. Past 4,194,304 jobs the move takes as many accesses.
//! The judged drains therefore start after the move; one drain before it shows the difference.

use anyhow::ensure;
use redis::aio::ConnectionLike;

use crate::drain::{self, RUST};
use crate::fixture::Fixture;
use crate::lateness;
use crate::results::{Line, Plot, Results, median};
use crate::rows::Row;
use crate::settings::Settings;

/// Jobs pushed by one `MULTI`.
const BATCH: u64 = 1_000;
/// Due time of the first pending job, from now, in ms: one day. Each further job is due 1 ms later.
const FAR_MS: u64 = 86_400_000;

/// Measures the whole family: every repeat at each backlog size.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let mut fixture = Fixture::prepare().await?;
    let far_ms = fixture.now_ms().await? + FAR_MS;
    let mut points = Vec::new();
    let mut first: Option<(f64, f64)> = None;
    for (number, &backlog) in settings.backlogs.iter().enumerate() {
        fill(&mut fixture, backlog, settings.payload, far_ms).await?;
        let is_last = number + 1 == settings.backlogs.len();
        if is_last {
            let drain = drain::on(&fixture, settings, RUST, settings.jobs, settings.in_flight);
            results.add(Row::BacklogGrowing, drain.await?.per_s);
        }
        finish_rehash(&fixture, backlog).await?;
        let mut rates = Vec::new();
        let mut late_ms = Vec::new();
        for _ in 0..settings.repeats {
            let drain = drain::on(&fixture, settings, RUST, settings.jobs, settings.in_flight);
            rates.push(drain.await?.per_s);
            if first.is_none() || is_last {
                late_ms.push(lateness::on(&fixture, settings).await?.reported.p99_ms);
            }
        }
        rates.sort_by(f64::total_cmp);
        late_ms.sort_by(f64::total_cmp);
        points.push((backlog as f64, median(&rates)));
        let (rate, late) = *first.get_or_insert((median(&rates), median(&late_ms)));
        if is_last {
            for per_s in &rates {
                results.add(Row::BacklogDrainRate, *per_s);
                results.add(Row::BacklogDrain, 100.0 * per_s / rate);
            }
            for ms in &late_ms {
                results.add(Row::BacklogLateP99, *ms);
                results.add(Row::BacklogLate, ms / late);
            }
        }
    }
    let name = "drain, Rust, fresh".to_owned();
    results.lines.push(Line { plot: Plot::Backlog, name, points });
    Ok(())
}

/// Pushes pending jobs until there are `backlog` of them.
async fn fill(
    fixture: &mut Fixture,
    backlog: u64,
    payload_len: u64,
    far_ms: u64,
) -> anyhow::Result<()> {
    let payload = "x".repeat(usize::try_from(payload_len)?);
    let mut connection = fixture.queue.redis();
    while fixture.backlog < backlog {
        let until = backlog.min(fixture.backlog + BATCH);
        let numbers = fixture.backlog..until;
        push_with_plain_commands(fixture, &mut connection, numbers, &payload, far_ms).await?;
        fixture.backlog = until;
    }
    fixture.ensure_clean().await
}

/// Looks up missing ids until every bucket of the tables has moved: each lookup moves one bucket.
async fn finish_rehash(fixture: &Fixture, backlog: u64) -> anyhow::Result<()> {
    let mut connection = fixture.queue.redis();
    let missing_ids = vec!["-"; usize::try_from(BATCH)?];
    let (mut in_jobs, mut in_pending) = (redis::cmd("HMGET"), redis::cmd("ZMSCORE"));
    in_jobs.arg(fixture.key("jobs")).arg(&missing_ids);
    in_pending.arg(fixture.key("pending")).arg(&missing_ids);
    let mut lookup = redis::pipe();
    lookup.add_command(in_jobs).ignore().add_command(in_pending).ignore();
    for _ in 0..backlog.div_ceil(BATCH) {
        let () = lookup.query_async(&mut connection).await?;
    }
    Ok(())
}

async fn push_with_plain_commands(
    fixture: &Fixture,
    connection: &mut (impl ConnectionLike + Send + Sync),
    numbers: std::ops::Range<u64>,
    payload: &str,
    far_ms: u64,
) -> anyhow::Result<()> {
    let (mut bodies, mut dues) = (redis::cmd("HSET"), redis::cmd("ZADD"));
    bodies.arg(fixture.key("jobs"));
    dues.arg(fixture.key("pending"));
    let count = numbers.end - numbers.start;
    for number in numbers {
        let id = format!("waiting-{number:08}");
        bodies.arg(&id).arg(payload);
        dues.arg(far_ms + number).arg(&id);
    }
    let mut push = redis::pipe();
    push.atomic().add_command(bodies).add_command(dues);
    let (stored, due): (u64, u64) = push.query_async(connection).await?;
    ensure!(stored == count && due == count, "Redis took {stored} and {due} of {count} jobs");
    Ok(())
}
