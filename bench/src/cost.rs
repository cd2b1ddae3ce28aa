//! Where the processor time of a job goes: in Redis, in the sandbox, and in the rest of the daemon,
//! for each language and way.
//!
//! The sandbox is measured alone, in this process, as `./dev bench sandbox` does; the rest is what
//! the daemon took beside it.

use anyhow::Context;

use crate::drain::{self, WAYS};
use crate::figures::{Cost, Figures};
use crate::sandbox;
use crate::settings::Settings;

/// The whole family, once.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    let jobs = settings.jobs as f64;
    for way in WAYS {
        let drain = drain::fresh(settings, way, &[]).await.context(way.name)?;
        let (handlers, payload) = (settings.handlers.clone(), settings.payload);
        let alone = move || sandbox::processor_us(&handlers, payload, way.module, way.mode);
        let sandbox_us = tokio::task::spawn_blocking(alone).await??;
        let daemon_us = (drain.daemon_cpu_s * 1e6 / jobs - sandbox_us).max(0.0);
        let redis_us = drain.load.cpu_s * 1e6 / jobs;
        figures.costs.push(Cost { way: way.name, redis_us, daemon_us, sandbox_us });
    }
    Ok(())
}
