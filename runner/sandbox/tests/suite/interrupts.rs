//! Guests that share a thread, and guests that are interrupted.

use std::time::Duration;

use duebox_job::Outcome;
use duebox_sandbox::{Handler, Interrupt, InterruptReason, Invocation};

use crate::support::{ACKS, Lines, SLEEPER, SPINNER, job, load, run, services_with_logs};

#[tokio::test(flavor = "current_thread")]
async fn a_guest_that_spins_or_waits_yields_its_thread() {
    for module in [SPINNER, SLEEPER] {
        let (hostile, neighbour) = (load(module), load(ACKS));
        let (interrupt, lines) = (Interrupt::new(), Lines::new());
        let busy = tokio::spawn({
            let (interrupt, sink) = (interrupt.clone(), lines.clone());
            async move { hostile.run(job(), interrupt, services_with_logs(sink)).await }
        });
        lines.one().await;
        for _ in 0..3 {
            assert_eq!(run(&neighbour, job()).await.report.outcome, Outcome::Acked);
        }
        assert!(!busy.is_finished(), "its ttr is a minute");
        interrupt.raise(InterruptReason::LeaseLost);
        let report = busy.await.unwrap();
        let text = "interrupted: the lease was lost".to_owned();
        assert_eq!(report.outcome, Outcome::HostFault(text));
        assert!(report.wall < Duration::from_secs(60));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_ends_all_its_guests_and_no_others() {
    let (interrupt, other) = (Interrupt::new(), Interrupt::new());
    let mut ended = Vec::new();
    for module in [SPINNER, SLEEPER, SPINNER, SLEEPER] {
        let (handler, lines) = (load(module), Lines::new());
        let (interrupt, sink) = (interrupt.clone(), lines.clone());
        ended.push(tokio::spawn(async move {
            handler.run(job(), interrupt, services_with_logs(sink)).await
        }));
        lines.one().await;
    }
    let (handler, lines) = (load(SLEEPER), Lines::new());
    let beside = tokio::spawn({
        let (other, sink) = (other.clone(), lines.clone());
        async move { handler.run(job(), other, services_with_logs(sink)).await }
    });
    lines.one().await;
    interrupt.raise(InterruptReason::Shutdown);
    for guest in ended {
        let text = "interrupted: the runner is shutting down".to_owned();
        assert_eq!(guest.await.unwrap().outcome, Outcome::HostFault(text));
    }
    assert!(!beside.is_finished());
    other.raise(InterruptReason::LeaseLost);
    assert!(matches!(beside.await.unwrap().outcome, Outcome::HostFault(_)));
}

#[tokio::test(flavor = "current_thread")]
async fn a_deadline_is_enforced_on_a_busy_thread() {
    let handler = load(SPINNER);
    let (mut short, mut long) = (job(), job());
    (short.ttr, long.ttr) = (Duration::from_millis(50), Duration::from_millis(500));
    let (short, long) = tokio::join!(
        tokio::spawn(run_to_its_end(handler.clone(), short)),
        tokio::spawn(run_to_its_end(handler, long)),
    );
    // With the thread's timers alone, both would end at the same time.
    assert!(short.unwrap() < long.unwrap() / 2);
}

async fn run_to_its_end(handler: Handler, job: Invocation) -> Duration {
    run(&handler, job).await.report.wall
}

#[tokio::test]
async fn a_raised_interrupt_prevents_a_start() {
    let interrupt = Interrupt::new();
    interrupt.raise(InterruptReason::Shutdown);
    let lines = Lines::new();
    let report = load(SPINNER).run(job(), interrupt, services_with_logs(lines.clone())).await;
    assert!(matches!(report.outcome, Outcome::HostFault(_)));
    assert!(lines.take().is_empty());
}

#[tokio::test]
async fn dropping_the_run_ends_the_guest() {
    let (handler, lines) = (load(SLEEPER), Lines::new());
    let sink = lines.clone();
    let waiting = tokio::spawn(async move {
        handler.run(job(), Interrupt::new(), services_with_logs(sink)).await
    });
    lines.one().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(run(&load(ACKS), job()).await.report.outcome, Outcome::Acked);
}
