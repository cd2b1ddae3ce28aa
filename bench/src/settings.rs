//! The sizes of a run: the full form, the quick form and the form for CI.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::BenchArgs;
use crate::rows::Family;

/// Sizes of all families.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Settings {
    /// True for the quick form.
    pub(crate) quick: bool,
    pub(crate) repeats: u64,
    /// Ready jobs to drain.
    pub(crate) jobs: u64,
    /// Ready jobs of the long drain.
    pub(crate) long_jobs: u64,
    /// Ready jobs that a handler posts to a server.
    pub(crate) work_jobs: u64,
    /// Bytes of each job's payload.
    pub(crate) payload: u64,
    /// Jobs in flight: the daemon's `max_jobs` and the topic's `concurrency`.
    pub(crate) in_flight: u64,
    /// Jobs that fall due one by one …
    pub(crate) due_jobs: u64,
    /// … over this many ms.
    pub(crate) spread_ms: u64,
    /// Jobs that fall due at one instant.
    pub(crate) burst_jobs: u64,
    /// Backlog sizes in ascending order; the first is the reference.
    pub(crate) backlogs: Vec<u64>,
    pub(crate) topics: u64,
    /// Topics whose number must not make jobs late.
    pub(crate) many_topics: u64,
    pub(crate) idle_topics: u64,
    /// How long an idle daemon is measured, s. Some of what it does comes once a minute.
    pub(crate) idle_s: u64,
    /// How long each phase of the open page is measured, s.
    pub(crate) page_s: u64,
    /// Pending jobs whose memory is measured.
    pub(crate) pending_jobs: u64,
    /// Jobs pushed one per request or one per call.
    pub(crate) pushes: u64,
    /// Families to measure; all if empty.
    pub(crate) only: Vec<Family>,
    pub(crate) handlers: PathBuf,
}

impl Settings {
    pub(crate) fn new(args: &BenchArgs) -> Self {
        let full = Self {
            quick: false,
            repeats: args.repeats.unwrap_or(3),
            jobs: args.jobs.unwrap_or(100_000),
            long_jobs: 600_000,
            work_jobs: 20_000,
            payload: args.payload,
            in_flight: args.in_flight,
            due_jobs: 2_000,
            spread_ms: 10_000,
            burst_jobs: 10_000,
            backlogs: vec![1_000, 10_000, 100_000, 1_000_000, 5_000_000],
            topics: 1_000,
            many_topics: 10_000,
            idle_topics: 100,
            idle_s: 60,
            page_s: 20,
            pending_jobs: 100_000,
            pushes: 20_000,
            only: args.only.clone(),
            handlers: args.handlers.clone(),
        };
        if !args.quick {
            return full;
        }
        Self {
            quick: true,
            repeats: args.repeats.unwrap_or(1),
            jobs: args.jobs.unwrap_or(20_000),
            long_jobs: 60_000,
            work_jobs: 2_000,
            due_jobs: 400,
            spread_ms: 2_000,
            burst_jobs: 5_000,
            pushes: 2_000,
            backlogs: vec![1_000, 20_000, 200_000],
            idle_s: 3,
            page_s: 6,
            ..full
        }
    }

    /// Sizes of the checks in CI.
    pub(crate) fn for_ci(handlers: &Path) -> Self {
        Self {
            quick: true,
            repeats: 3,
            jobs: 20_000,
            long_jobs: 20_000,
            work_jobs: 2_000,
            payload: 200,
            in_flight: 256,
            due_jobs: 300,
            spread_ms: 1_500,
            burst_jobs: 5_000,
            backlogs: vec![1_000, 100_000],
            topics: 100,
            many_topics: 1_000,
            idle_topics: 100,
            idle_s: 1,
            page_s: 2,
            pending_jobs: 20_000,
            pushes: 2_000,
            only: Vec::new(),
            handlers: handlers.to_owned(),
        }
    }

    /// Returns whether the family is to be measured.
    pub(crate) fn wants(&self, family: Family) -> bool {
        self.only.is_empty() || self.only.contains(&family)
    }

    /// Path of a handler: its source, or its module.
    pub(crate) fn handler(&self, module: &str) -> anyhow::Result<PathBuf> {
        let source = source_of(&self.handlers, module);
        if source.is_file() {
            return source.canonicalize().with_context(|| source.display().to_string());
        }
        let path = self.handlers.join(format!("{module}.wasm"));
        path.canonicalize().with_context(|| {
            format!("no handler at {}; run: ./dev handlers {module}", path.display())
        })
    }
}

/// Where a handler that is a source would be: next to the folder of the modules.
pub(crate) fn source_of(handlers: &Path, handler: &str) -> PathBuf {
    let file = if handler.ends_with("-py") { "main.py" } else { "index.ts" };
    handlers.join("..").join(handler).join(file)
}
