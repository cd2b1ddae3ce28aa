//! The same runs on a Redis that writes to disk, each second or at each command, as users run it.
//! The disk is that of the folder for temporary files.

use anyhow::Context;

use crate::drain::{self, RUST};
use crate::figures::Figures;
use crate::rows::Row;
use crate::settings::Settings;
use crate::{lateness, push, sustained};

/// A way of writing, and the rows of its figures.
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

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    for disk in &DISKS {
        let redis = ["--appendonly", "yes", "--appendfsync", disk.fsync];
        let drain = drain::fresh(settings, RUST, &redis).await.context(disk.fsync)?;
        figures.add(disk.drain, drain.per_s);
        let sustained = sustained::fresh(settings, &redis).await.context(disk.fsync)?;
        figures.add(disk.sustained, sustained);
        figures.add(disk.push, push::library(settings, &redis).await.context(disk.fsync)?);
        let late = lateness::fresh(settings, &redis).await.context(disk.fsync)?;
        figures.add(disk.late, late.reported.p99_ms);
    }
    Ok(())
}
