//! Drain, sustained load, pushes and lateness on a Redis that fsyncs its log every second or at
//! every command. The log is on the disk of the temporary folder.

use anyhow::Context;

use crate::drain::{self, RUST};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::{lateness, push, sustained};

/// An fsync policy and the rows of its results.
struct Disk {
    fsync: &'static str,
    drain: Row,
    sustained: Row,
    push: Row,
    late: Row,
}

const DISKS: [Disk; 2] = [
    Disk {
        fsync: "everysec",
        drain: Row::EverysecDrain,
        sustained: Row::EverysecSustained,
        push: Row::EverysecPush,
        late: Row::EverysecLate,
    },
    Disk {
        fsync: "always",
        drain: Row::AlwaysDrain,
        sustained: Row::AlwaysSustained,
        push: Row::AlwaysPush,
        late: Row::AlwaysLate,
    },
];

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    for disk in &DISKS {
        let redis = ["--appendonly", "yes", "--appendfsync", disk.fsync];
        let drain = drain::fresh(settings, RUST, &redis).await.context(disk.fsync)?;
        results.add(disk.drain, drain.per_s);
        let sustained = sustained::fresh(settings, &redis).await.context(disk.fsync)?;
        results.add(disk.sustained, sustained);
        results.add(disk.push, push::library(settings, &redis).await.context(disk.fsync)?);
        let late = lateness::fresh(settings, &redis).await.context(disk.fsync)?;
        results.add(disk.late, late.reported.p99_ms);
    }
    Ok(())
}
