//! Throughput by the size of batches: what a turn that carries few jobs costs. The bare client takes
//! batches of just that size. The daemon sizes its batches itself, by how fast its handlers are; what can
//! be said to it is how many jobs it may run at once.

use anyhow::Context;

use crate::ceiling;
use crate::drain::{self, RUST};
use crate::figures::{Figures, Line, Plot};
use crate::ground::Ground;
use crate::settings::Settings;

const SIZES: [u64; 8] = [1, 2, 4, 16, 64, 128, 256, 1_000];
/// Jobs for each of a batch, so that the small ones end soon.
const BATCHES_MAX: u64 = 5_000;

/// The whole family, once.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    let (mut daemon, mut client) = (Vec::new(), Vec::new());
    for size in SIZES {
        let jobs = settings.jobs.min(size * BATCHES_MAX);
        let ground = Ground::prepare().await?;
        let drain = drain::on(&ground, settings, RUST, jobs, size).await;
        let drain = drain.with_context(|| format!("{size} at once"))?;
        daemon.push((size as f64, drain.per_s));
        let ceiling = ceiling::of(settings, jobs, usize::try_from(size)?).await?;
        client.push((size as f64, ceiling.per_s));
    }
    for (name, points) in
        [("daemon, so many at once", daemon), ("bare client, so many a batch", client)]
    {
        figures.lines.push(Line { plot: Plot::Batches, name: name.to_owned(), points });
    }
    Ok(())
}
