//! The backlog: the same drain and the same lateness while more and more jobs wait for a day that
//! has not come. The waiting ones are pushed by plain commands, as a producer without a library
//! would, and must all be there at the end.
//!
//! A hash of Redis that has grown past a power of two moves to a larger table bucket by bucket, with every
//! access, and each access costs more until it is done: past 4,194,304 jobs that takes as many accesses. So the
//! judged drains wait until it has moved, and one before that shows what it costs.

use anyhow::ensure;
use redis::aio::ConnectionManager;

use crate::drain::{self, RUST};
use crate::figures::{Figures, Line, Plot, median};
use crate::ground::Ground;
use crate::lateness;
use crate::rows::Row;
use crate::settings::Settings;

/// Jobs that one `MULTI` pushes.
const BATCH: u64 = 1_000;
/// How far away the due times are, ms: a day, and each job a ms later than the one before.
const FAR_MS: u64 = 86_400_000;

/// The whole family: each size of the backlog once, all repeats on it.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    let mut ground = Ground::prepare().await?;
    let far_ms = ground.now_ms().await? + FAR_MS;
    let mut points = Vec::new();
    let mut first: Option<(f64, f64)> = None;
    for (number, &backlog) in settings.backlogs.iter().enumerate() {
        fill(&mut ground, backlog, settings.payload, far_ms).await?;
        let is_last = number + 1 == settings.backlogs.len();
        if is_last {
            let drain = drain::on(&ground, settings, RUST, settings.jobs, settings.in_flight);
            figures.add(Row::BacklogGrowing, drain.await?.per_s);
        }
        finish_growing(&ground, backlog).await?;
        let mut rates = Vec::new();
        let mut late_ms = Vec::new();
        for _ in 0..settings.repeats {
            let drain = drain::on(&ground, settings, RUST, settings.jobs, settings.in_flight);
            rates.push(drain.await?.per_s);
            if first.is_none() || is_last {
                late_ms.push(lateness::on(&ground, settings).await?.reported.p99_ms);
            }
        }
        rates.sort_by(f64::total_cmp);
        late_ms.sort_by(f64::total_cmp);
        points.push((backlog as f64, median(&rates)));
        let (rate, late) = *first.get_or_insert((median(&rates), median(&late_ms)));
        if is_last {
            for per_s in &rates {
                figures.add(Row::BacklogDrainRate, *per_s);
                figures.add(Row::BacklogDrain, 100.0 * per_s / rate);
            }
            for ms in &late_ms {
                figures.add(Row::BacklogLateP99, *ms);
                figures.add(Row::BacklogLate, ms / late);
            }
        }
    }
    let name = "drain, Rust, fresh".to_owned();
    figures.lines.push(Line { plot: Plot::Backlog, name, points });
    Ok(())
}

/// Raises the backlog to so many jobs.
async fn fill(
    ground: &mut Ground,
    backlog: u64,
    payload_len: u64,
    far_ms: u64,
) -> anyhow::Result<()> {
    let payload = "x".repeat(usize::try_from(payload_len)?);
    let mut connection = ground.queue.redis();
    while ground.standing < backlog {
        let until = backlog.min(ground.standing + BATCH);
        let numbers = ground.standing..until;
        push_plainly(ground, &mut connection, numbers, &payload, far_ms).await?;
        ground.standing = until;
    }
    ground.ensure_clean().await
}

/// Looks for what is not there until every bucket of the tables must have moved: each look moves one.
async fn finish_growing(ground: &Ground, backlog: u64) -> anyhow::Result<()> {
    let mut connection = ground.queue.redis();
    let nobody = vec!["-"; usize::try_from(BATCH)?];
    let (mut in_jobs, mut in_pending) = (redis::cmd("HMGET"), redis::cmd("ZMSCORE"));
    in_jobs.arg(ground.key("jobs")).arg(&nobody);
    in_pending.arg(ground.key("pending")).arg(&nobody);
    let mut look = redis::pipe();
    look.add_command(in_jobs).ignore().add_command(in_pending).ignore();
    for _ in 0..backlog.div_ceil(BATCH) {
        let () = look.query_async(&mut connection).await?;
    }
    Ok(())
}

async fn push_plainly(
    ground: &Ground,
    connection: &mut ConnectionManager,
    numbers: std::ops::Range<u64>,
    payload: &str,
    far_ms: u64,
) -> anyhow::Result<()> {
    let (mut bodies, mut dues) = (redis::cmd("HSET"), redis::cmd("ZADD"));
    bodies.arg(ground.key("jobs"));
    dues.arg(ground.key("pending"));
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
