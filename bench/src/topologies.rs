//! What TLS, a cluster and copies cost: the same drain and lateness as on one plain server, in the same repeat; and one
//! topic with shards on a cluster of one, two and three primaries.

use std::time::Duration;

use anyhow::Context;
use duebox_queue::Durability;

use crate::drain::{self, Drain, RUST};
use crate::fixture::Fixture;
use crate::results::Results;
use crate::rows::Row;
use crate::servers::Place;
use crate::settings::Settings;
use crate::{lateness, push, say};

/// The shards of the drained topic. Their slots lie 8 and 8 on two primaries, and 5, 5 and 6 on three.
const SHARDS: u32 = 16;
/// How long a replica that confirms nothing yet is given.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// The rows of a drain on a cluster.
struct ClusterRows {
    primaries: usize,
    drain: Row,
    daemon: Row,
    all: Row,
    busiest: Row,
}

const CLUSTERS: [ClusterRows; 3] = [
    ClusterRows {
        primaries: 1,
        drain: Row::ShardsOneDrain,
        daemon: Row::ShardsOneDaemon,
        all: Row::ShardsOneAll,
        busiest: Row::ShardsOneBusiest,
    },
    ClusterRows {
        primaries: 2,
        drain: Row::ShardsTwoDrain,
        daemon: Row::ShardsTwoDaemon,
        all: Row::ShardsTwoAll,
        busiest: Row::ShardsTwoBusiest,
    },
    ClusterRows {
        primaries: 3,
        drain: Row::ShardsThreeDrain,
        daemon: Row::ShardsThreeDaemon,
        all: Row::ShardsThreeAll,
        busiest: Row::ShardsThreeBusiest,
    },
];

/// Measures the family `cluster` once.
pub(crate) async fn measure_cluster(
    settings: &Settings,
    results: &mut Results,
) -> anyhow::Result<()> {
    let single = plain(settings, Place::Single(&[])).await.context("one server")?;
    let cluster = plain(settings, Place::Cluster(1)).await.context("a cluster of one")?;
    results.add(Row::ClusterDrain, 100.0 * cluster.per_s / single.per_s);
    let late = late_p99_ms(settings, Place::Cluster(1)).await.context("a cluster of one")?;
    results.add(Row::ClusterLate, late);
    let us = |seconds: f64| seconds * 1e6 / settings.jobs as f64;
    for rows in &CLUSTERS {
        let mut fixture = Fixture::prepare_at(Place::Cluster(rows.primaries)).await?;
        fixture.split(SHARDS).await?;
        let drain = drain::on(&fixture, settings, RUST, settings.jobs, settings.in_flight).await;
        let drain = drain.with_context(|| format!("{} primaries", rows.primaries))?;
        results.add(rows.drain, drain.per_s);
        results.add(rows.daemon, us(drain.daemon_cpu_s));
        results.add(rows.all, us(drain.servers_cpu_s.iter().sum()));
        results.add(rows.busiest, us(drain.servers_cpu_s.iter().copied().fold(0.0, f64::max)));
    }
    Ok(())
}

/// Measures the family `tls` once.
pub(crate) async fn measure_tls(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let single = plain(settings, Place::Single(&[])).await.context("plain")?;
    let secure = plain(settings, Place::Tls).await.context("TLS")?;
    results.add(Row::TlsDrain, secure.per_s);
    results.add(Row::TlsShare, 100.0 * secure.per_s / single.per_s);
    results.add(Row::TlsLate, late_p99_ms(settings, Place::Tls).await.context("TLS")?);
    Ok(())
}

/// A value of `redis.durability` and its rows.
struct CopyRows {
    durability: Durability,
    drain: Row,
    push: Row,
    push_one: Row,
    late: Row,
}

const COPIES: [CopyRows; 3] = [
    CopyRows {
        durability: Durability::Async,
        drain: Row::AsyncDrain,
        push: Row::AsyncPush,
        push_one: Row::AsyncPushOne,
        late: Row::AsyncLate,
    },
    CopyRows {
        durability: Durability::Replica,
        drain: Row::ReplicaDrain,
        push: Row::ReplicaPush,
        push_one: Row::ReplicaPushOne,
        late: Row::ReplicaLate,
    },
    CopyRows {
        durability: Durability::Disk,
        drain: Row::DiskDrain,
        push: Row::DiskPush,
        push_one: Row::DiskPushOne,
        late: Row::DiskLate,
    },
];

/// Measures the family `copies` once. A server without WAITAOF has no rows of `disk`.
pub(crate) async fn measure_copies(
    settings: &Settings,
    results: &mut Results,
) -> anyhow::Result<()> {
    for rows in &COPIES {
        let word = rows.durability.word();
        let place = Place::Replicated(rows.durability);
        if rows.durability == Durability::Disk
            && !Fixture::prepare_at(place).await?.waits_for_disk()
        {
            say("  this server has no WAITAOF: redis.durability = \"disk\" is not measured");
            continue;
        }
        results.add(rows.drain, plain(settings, place).await.context(word)?.per_s);
        let fixture = prepared(place).await?;
        results.add(rows.push, push::by_library(&fixture, settings).await.context(word)?);
        let fixture = prepared(place).await?;
        results.add(rows.push_one, push::singly(&fixture, settings, 1).await.context(word)?);
        results.add(rows.late, late_p99_ms(settings, place).await.context(word)?);
    }
    Ok(())
}

/// The servers of this kind, once writes have the copies that are waited for: a replica that has just synced confirms
/// nothing for up to a second.
async fn prepared(place: Place<'_>) -> anyhow::Result<Fixture> {
    let fixture = Fixture::prepare_at(place).await?;
    while fixture.queue.check_durability().await?.is_some() {
        tokio::time::sleep(RETRY_AFTER).await;
    }
    Ok(fixture)
}

async fn plain(settings: &Settings, place: Place<'_>) -> anyhow::Result<Drain> {
    let fixture = prepared(place).await?;
    drain::on(&fixture, settings, RUST, settings.jobs, settings.in_flight).await
}

async fn late_p99_ms(settings: &Settings, place: Place<'_>) -> anyhow::Result<f64> {
    let fixture = prepared(place).await?;
    Ok(lateness::on(&fixture, settings).await?.reported.p99_ms)
}
