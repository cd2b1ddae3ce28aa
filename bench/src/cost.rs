//! Where the CPU time of a job goes: Redis, the sandbox, and the rest of the daemon, for each
//! language and instance mode.
//!
//! The sandbox is measured alone, in this process, as `./dev bench sandbox` does. The rest is the
//! daemon's CPU time minus that.

use anyhow::Context;

use crate::drain::{self, VARIANTS};
use crate::results::{Cost, Results};
use crate::sandbox;
use crate::settings::Settings;

/// Measures the whole family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let jobs = settings.jobs as f64;
    for variant in VARIANTS {
        let drain = drain::fresh(settings, variant, &[]).await.context(variant.name)?;
        let (handlers, payload) = (settings.handlers.clone(), settings.payload);
        let alone = move || sandbox::processor_us(&handlers, payload, variant.module, variant.mode);
        let sandbox_us = tokio::task::spawn_blocking(alone).await??;
        let daemon_us = (drain.daemon_cpu_s * 1e6 / jobs - sandbox_us).max(0.0);
        let redis_us = drain.load.cpu_s * 1e6 / jobs;
        results.costs.push(Cost { variant: variant.name, redis_us, daemon_us, sandbox_us });
    }
    Ok(())
}
