//! Throughput by batch size: the cost of a round trip that carries few jobs. The bare client uses
//! batches of exactly the given size. The daemon chooses its own batch size, so only its number of
//! jobs in flight can be set.

use anyhow::Context;

use crate::ceiling;
use crate::drain::{self, RUST};
use crate::fixture::Fixture;
use crate::results::{Line, Plot, Results};
use crate::settings::Settings;

const SIZES: [u64; 8] = [1, 2, 4, 16, 64, 128, 256, 1_000];
/// Upper bound on jobs, as a multiple of the batch size, so that runs with small batches end soon.
const BATCHES_MAX: u64 = 5_000;

/// Measures the whole family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let (mut daemon, mut client) = (Vec::new(), Vec::new());
    for size in SIZES {
        let jobs = settings.jobs.min(size * BATCHES_MAX);
        let fixture = Fixture::prepare().await?;
        let drain = drain::on(&fixture, settings, RUST, jobs, size).await;
        let drain = drain.with_context(|| format!("{size} in flight"))?;
        daemon.push((size as f64, drain.per_s));
        let ceiling = ceiling::of(settings, jobs, usize::try_from(size)?).await?;
        client.push((size as f64, ceiling.per_s));
    }
    for (name, points) in
        [("daemon, by jobs in flight", daemon), ("bare client, by batch size", client)]
    {
        results.lines.push(Line { plot: Plot::Batches, name: name.to_owned(), points });
    }
    Ok(())
}
