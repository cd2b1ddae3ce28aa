//! Rebuilds `order-close` while its jobs run, as another edition, with the same script that a user
//! would run.

use std::io;
use std::process::{Output, Stdio};

use anyhow::{Context, ensure};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::Args;

/// A running or finished rebuild. Dropping it stops the build.
pub(crate) struct Rebuild {
    /// The edition in the new module's log lines; different in every run.
    pub(crate) edition: String,
    build: JoinSet<io::Result<Output>>,
}

impl Rebuild {
    /// Starts the build.
    pub(crate) fn start(args: &Args) -> anyhow::Result<Self> {
        let edition = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
        let child = Command::new(&args.build)
            .arg("order-close")
            .env("ORDER_CLOSE_EDITION", &edition)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", args.build.display()))?;
        let mut build = JoinSet::new();
        build.spawn(child.wait_with_output());
        Ok(Self { edition, build })
    }

    /// Waits once until the build is finished; further calls never return. Cancel-safe.
    ///
    /// # Errors
    /// The output of a failed build.
    pub(crate) async fn done(&mut self) -> anyhow::Result<()> {
        let Some(ended) = self.build.join_next().await else {
            return std::future::pending().await;
        };
        let output = ended?.context("cannot wait for the build of order-close")?;
        ensure!(
            output.status.success(),
            "the rebuild of order-close failed ({}):\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Whether a handler's line comes from the new module.
    pub(crate) fn is_from_new_module(&self, message: &str) -> bool {
        let edition = message.split(' ').find_map(|word| word.strip_prefix("edition="));
        edition == Some(self.edition.as_str())
    }
}
