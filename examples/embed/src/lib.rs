//! A worker inside a Rust program: it pushes jobs, runs its own handler on them, and ends when all are
//! done. It needs Redis; it needs neither the Duebox daemon nor WebAssembly.
//!
//! Delivery is at least once: a handler may see a job again after a crash, so it must be idempotent.

use std::io::Write;
use std::time::Duration;

use duebox_queue::{
    ConnectionSettings, Due, IfExists, JobId, Lease, NewJob, PullOptions, Queue, Topic, Verdict,
};

/// How long a lease holds. A handler that may run longer extends its lease.
const LEASE: Duration = Duration::from_secs(15);
/// How long one pull waits for a job.
const WAIT: Duration = Duration::from_secs(5);
/// The wait after a failed attempt.
const RETRY_AFTER: Duration = Duration::from_millis(300);
/// Attempts that a job has in all.
const ATTEMPTS_MAX: u32 = 5;
/// How long the reminder waits.
const REMINDER_AFTER: Duration = Duration::from_secs(1);

/// Pushes three jobs, runs them, and writes to `out` what happens.
///
/// # Errors
/// If Redis cannot be reached or refuses, or `out` cannot be written.
pub async fn run(url: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let queue = Queue::connect(&ConnectionSettings::new(url), "embed-example").await?;
    let mail = queue.topic("mail")?;
    let jobs = [
        NewJob::new(JobId::new("welcome")?, "Hello, Ada!"),
        NewJob::new(JobId::new("invoice")?, "Your invoice, Ada."),
        NewJob::new(JobId::new("reminder")?, "Ada, your trial ends.")
            .with_due(Due::In(REMINDER_AFTER)),
    ];
    let pushed = mail.push(&jobs, IfExists::Keep).await?;
    for (job, result) in jobs.iter().zip(pushed) {
        writeln!(out, "push {}: {}", job.id, result.word())?;
    }
    work(&mail, out).await?;
    let left = mail.depths().await?;
    writeln!(out, "left: {} pending, {} dead", left.pending, left.dead)?;
    Ok(())
}

/// Leases, handles and settles jobs, until no job is left, or none comes within [`WAIT`].
async fn work(mail: &Topic, out: &mut impl Write) -> anyhow::Result<()> {
    let options = PullOptions::new("embed-1", 10, LEASE, WAIT)?;
    loop {
        let pulled = mail.pull(&options).await?;
        if pulled.leases.is_empty() {
            return Ok(());
        }
        let mut settlements = Vec::with_capacity(pulled.leases.len());
        for lease in pulled.leases {
            let verdict = match send(&lease) {
                Ok(()) => Verdict::Ack,
                Err(reason) => Verdict::nack(RETRY_AFTER, ATTEMPTS_MAX, &reason),
            };
            let (id, attempt) = (lease.id.clone(), lease.failures + 1);
            writeln!(out, "run {id}, attempt {attempt}: {}", describe(&verdict))?;
            settlements.push(lease.settle(verdict));
        }
        for (settlement, settled) in settlements.iter().zip(mail.settle(&settlements).await?) {
            writeln!(out, "settle {}: {}", settlement.id(), settled.word())?;
        }
        let depths = mail.depths().await?;
        if depths.pending + depths.ready + depths.unack + depths.retry == 0 {
            return Ok(());
        }
    }
}

/// The handler. The mail server of this example refuses the first attempt of every invoice.
fn send(lease: &Lease) -> Result<(), String> {
    if lease.id.as_bytes() == b"invoice" && lease.failures == 0 {
        return Err("the mail server is busy".to_owned());
    }
    Ok(())
}

fn describe(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ack => "ack",
        _ => "nack, the mail server is busy",
    }
}
