//! What a further topic of a source language costs a process that serves one already: memory, with one job run on each
//! topic. A page counts once, although the module and its instances map it. The engine is in the cache, as that of a daemon.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use duebox::language::SourceHandler;
use duebox_job::Outcome;
use duebox_sandbox::{
    Grants, Handler, HostServices, Instances, Interrupt, Limits, Sandbox, SandboxConfig,
};

use crate::machine::proportional_bytes;
use crate::sandbox::{DiscardLog, job};

/// Topics that are added.
const TOPICS: usize = 6;
/// Topics before them, with which the process takes what all topics share.
const FIRST: usize = 2;

/// MB of memory that each further topic takes.
pub(crate) fn taken_mb(config: &SandboxConfig, handler: &Path) -> anyhow::Result<f64> {
    let folder = tempfile::tempdir().context("cannot create a directory for the sources")?;
    let mut sandbox = Sandbox::new(config)?;
    sandbox.use_cache_dir(&folder.path().join("cache"))?;
    let source = std::fs::read_to_string(handler)
        .with_context(|| format!("cannot read {}", handler.display()))?;
    let ending = handler.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let topic = |number: usize| {
        // Another program each: its memory is shared with no other.
        let path = folder.path().join(format!("topic{number}.{ending}"));
        std::fs::write(&path, &source)?;
        let instances = Instances { snapshot: true, jobs_each: 1 };
        let limits = Limits { instances, ..Limits::default() };
        let program = SourceHandler::read(&sandbox, &path, &limits)?;
        let handler = program.load(&sandbox, limits, Grants::default())?;
        let services = Arc::new(HostServices::with_logs(Arc::new(DiscardLog)));
        let run = handler.run(job(Bytes::from_static(b"{}"))?, Interrupt::new(), services);
        let report = runtime.block_on(run);
        ensure!(report.outcome == Outcome::Acked, "a job was not acked: {:?}", report.outcome);
        anyhow::Ok(handler)
    };
    let first = (0..FIRST).map(topic).collect::<anyhow::Result<Vec<Handler>>>()?;
    let before = proportional_bytes(std::process::id())?;
    let further = (FIRST..FIRST + TOPICS).map(topic).collect::<anyhow::Result<Vec<Handler>>>()?;
    let after = proportional_bytes(std::process::id())?;
    drop((first, further));
    Ok((after.saturating_sub(before)) as f64 / 1e6 / TOPICS as f64)
}
