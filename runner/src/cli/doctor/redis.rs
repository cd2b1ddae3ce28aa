//! `duebox doctor --redis`: whether the server that the manifest names can hold jobs, and what it costs to ask it.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytesize::ByteSize;
use duebox_queue::{Queue, QueueError, Role, TlsSession};
use jiff::Timestamp;
use serde::Serialize;

use super::super::support::failure::{FAILED, Failure};
use super::super::support::{output, target};
use super::sentinels::Sentinels;
use crate::manifest::Manifest;
use crate::redis_host::fitness::{self, Facts};

/// How often the server is asked for its latency and its clock.
const ASKED: usize = 20;
/// The skew of the two clocks above which a warning is printed. Redis' clock decides; logs of both differ.
const SKEW_MAX: Duration = Duration::from_secs(1);
/// The median latency above which a warning is printed.
const LATENCY_MAX: Duration = Duration::from_millis(5);
/// The share of `maxmemory` above which a warning is printed, in percent.
const MEMORY_MAX: u64 = 80;
/// How long before the end of a certificate a warning is printed.
const CERTIFICATE_WARNING: Duration = Duration::from_secs(14 * 24 * 3600);

#[derive(Serialize)]
struct ServerReport {
    url: String,
    user: String,
    #[serde(flatten)]
    facts: Facts,
    tls: Option<Tls>,
    /// The primaries of the cluster; none without one.
    cluster: Vec<String>,
    /// How many slots each of them has.
    cluster_slots: Vec<usize>,
    /// What the sentinels of the address say.
    sentinels: Option<Sentinels>,
    latency_us: Latency,
    /// How far Redis' clock is ahead of the one of this machine, in ms; negative if it is behind.
    clock_skew_ms: f64,
    /// ACL rules that a daemon needs and this user lacks.
    missing_permissions: Vec<String>,
    /// Why it cannot hold jobs.
    unfit: Vec<String>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Tls {
    version: String,
    cipher: String,
    certificate_expires: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Latency {
    p50: u64,
    max: u64,
}

pub(super) fn examine(manifest: &Manifest, json: bool) -> Result<ExitCode, Failure> {
    let report = target::block_on(async {
        let settings = target::settings(manifest)?;
        let queue = Queue::connect_without_writing(&settings, &manifest.redis.prefix).await?;
        let mut report = ask(&queue, settings.public_url(), settings.user()).await?;
        report.sentinels = settings.ask_sentinels().await?.map(Sentinels::from);
        report.judge();
        Ok(report)
    })?;
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&report.describe())?;
    }
    Ok(ExitCode::from(if report.unfit.is_empty() { 0 } else { FAILED }))
}

async fn ask(queue: &Queue, url: String, user: String) -> Result<ServerReport, QueueError> {
    let missing_permissions = queue.missing_permissions(Role::Daemon).await?;
    let (latency_us, clock_skew_ms) = measure(queue).await?;
    let Fitness { mut unfit, mut warnings, facts } = examine_each(queue).await?;
    match queue.check_durability().await {
        Ok(missing) => warnings.extend(
            missing.map(|missing| format!("pushes are answered as unconfirmed: {missing}")),
        ),
        Err(error @ QueueError::Durability { .. }) => unfit.push(error.to_string()),
        Err(error) => return Err(error),
    }
    Ok(ServerReport {
        url,
        user,
        facts,
        tls: queue.tls_session().map(Tls::from),
        cluster: queue.cluster_primaries(),
        cluster_slots: queue.cluster_slots(),
        sentinels: None,
        latency_us,
        clock_skew_ms,
        missing_permissions,
        unfit,
        warnings,
    })
}

/// What is unfit and what is a risk on any server, and what the first one says of itself.
struct Fitness {
    unfit: Vec<String>,
    warnings: Vec<String>,
    facts: Facts,
}

async fn examine_each(queue: &Queue) -> Result<Fitness, QueueError> {
    let (mut unfit, mut warnings, mut facts) = (Vec::new(), Vec::new(), None);
    for (address, mut server) in queue.redis_of_each() {
        let examined = fitness::examine(&mut server, address.is_some()).await;
        let examined = examined.map_err(|unfit| QueueError::Refused(unfit.to_string()))?;
        let named = |text: String| match &address {
            None => text,
            Some(address) => format!("{address}: {text}"),
        };
        unfit.extend(examined.unfit.iter().map(|reason| named(reason.to_string())));
        warnings.extend(examined.warnings.iter().map(|warning| named(warning.to_string())));
        warnings.extend(memory_warning(&examined.facts).map(named));
        facts.get_or_insert(examined.facts);
    }
    let facts = facts.ok_or_else(|| QueueError::NoReply("no server is known".to_owned()))?;
    Ok(Fitness { unfit, warnings, facts })
}

fn memory_warning(facts: &Facts) -> Option<String> {
    let is_short = facts.memory_used > facts.memory_max? / 100 * MEMORY_MAX;
    is_short.then(|| {
        format!("Redis uses over {MEMORY_MAX} % of maxmemory, and refuses pushes at 100 %; raise it, or drain topics")
    })
}

/// The latency of short commands, and how far Redis' clock is ahead, in ms. The clock is taken from the fastest
/// answer: the error is at most half of its latency.
async fn measure(queue: &Queue) -> Result<(Latency, f64), QueueError> {
    let mut latencies = Vec::with_capacity(ASKED);
    let mut best = (Duration::MAX, 0.0);
    for _ in 0..ASKED {
        let (wall, asked_at) = (unix_ms(), Instant::now());
        let redis_ms = queue.now_ms().await?;
        let took = asked_at.elapsed();
        latencies.push(took);
        if took < best.0 {
            best = (took, redis_ms as f64 - wall - took.as_secs_f64() * 500.0);
        }
    }
    latencies.sort_unstable();
    let micros = |took: Duration| took.as_micros() as u64;
    let latency = Latency { p50: micros(latencies[ASKED / 2]), max: micros(latencies[ASKED - 1]) };
    Ok((latency, best.1))
}

fn unix_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1000.0
}

impl From<TlsSession> for Tls {
    fn from(TlsSession { version, cipher, certificate_expires }: TlsSession) -> Self {
        Self { version, cipher, certificate_expires }
    }
}

impl ServerReport {
    /// Adds what follows from the figures.
    fn judge(&mut self) {
        if !self.missing_permissions.is_empty() {
            self.unfit.push(format!(
                "user {:?} may not do what a daemon does; run ACL SETUSER {} {}",
                self.user,
                self.user,
                self.missing_permissions.join(" ")
            ));
        }
        self.warnings.extend(self.sentinels.iter().flat_map(Sentinels::warnings));
        if self.clock_skew_ms.abs() > SKEW_MAX.as_secs_f64() * 1000.0 {
            self.warnings.push(
                "the clocks of Redis and of this machine differ by over 1 s; due times follow Redis' clock. Run NTP on both"
                    .to_owned(),
            );
        }
        if self.latency_us.p50 > LATENCY_MAX.as_micros() as u64 {
            self.warnings.push(format!(
                "half of the answers took over {} ms; run the daemon closer to Redis, or look for slow commands \
                 (SLOWLOG GET)",
                LATENCY_MAX.as_millis()
            ));
        }
        if let Some(end) = self.tls.as_ref().and_then(|tls| tls.certificate_expires.as_deref())
            && is_soon(end)
        {
            self.warnings.push(format!(
                "the server's certificate expires at {end}, within 14 days; renew it"
            ));
        }
    }

    fn describe(&self) -> String {
        let facts = &self.facts;
        let bytes = |bytes: u64| ByteSize(bytes).display().iec().to_string();
        let memory = match facts.memory_max {
            Some(max) => format!("{} of {}", bytes(facts.memory_used), bytes(max)),
            None => format!("{}, no limit", bytes(facts.memory_used)),
        };
        let tls = match &self.tls {
            None => "none".to_owned(),
            Some(Tls { version, cipher, certificate_expires }) => {
                let end = certificate_expires.as_deref().unwrap_or("at an unknown time");
                format!("{version}, {cipher}; the certificate expires {end}")
            }
        };
        let ms = |us: u64| us as f64 / 1000.0;
        let latency = format!(
            "p50 {:.2} ms, max {:.2} ms of {ASKED}",
            ms(self.latency_us.p50),
            ms(self.latency_us.max)
        );
        let sentinels =
            self.sentinels.as_ref().map_or_else(|| "none".to_owned(), Sentinels::describe);
        let cluster = match self.cluster.as_slice() {
            [] => "none".to_owned(),
            primaries => {
                let with_slots = primaries.iter().zip(&self.cluster_slots);
                let shown = with_slots.map(|(address, slots)| format!("{address} ({slots} slots)"));
                format!("{} primaries: {}", primaries.len(), shown.collect::<Vec<_>>().join(", "))
            }
        };
        let mut text = output::fields(&[
            ("url", self.url.clone()),
            ("user", self.user.clone()),
            ("sentinels", sentinels),
            ("cluster", cluster),
            ("server", format!("{} {}, {}", facts.server, facts.version, facts.mode)),
            ("role", format!("{}, {} replicas", facts.role, facts.replicas)),
            ("persistence", facts.persistence.clone()),
            ("eviction", facts.eviction.clone().unwrap_or_else(|| "unknown".to_owned())),
            ("memory", memory),
            ("latency", latency),
            ("clock", format!("{:+.1} ms against this machine", self.clock_skew_ms)),
            ("tls", tls),
        ]);
        for (word, lines) in [("warning", &self.warnings), ("unfit", &self.unfit)] {
            for line in lines {
                text.push_str(&format!("\n{word}: {line}"));
            }
        }
        text
    }
}

fn is_soon(end: &str) -> bool {
    let end: Option<Timestamp> = end.parse().ok();
    let soon = Timestamp::try_from(SystemTime::now() + CERTIFICATE_WARNING).ok();
    matches!((end, soon), (Some(end), Some(soon)) if end < soon)
}
