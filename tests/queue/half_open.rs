//! Connections that stay open and carry nothing, and servers that are only slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duebox_harness::{Proxy, RedisServer, eventually};
use duebox_queue::{IfExists, Pushed, Queue, TopicName};
use futures_util::FutureExt;

use crate::fixture::{Fixture, job};

/// The wait for a reply without a look at the connection.
const REPLY_MAX: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_replaced_within_seconds() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = Fixture::through(&proxy.url(), &server).await;
    for round in 0..3 {
        proxy.half_open();
        let called_at = Instant::now();
        assert_eq!(
            fixture.push_many(&[job(&round.to_string())], IfExists::Reject).await,
            [Pushed::Pushed]
        );
        let took = called_at.elapsed();
        println!("a push over a half-open connection took {} ms", took.as_millis());
        assert!(took < REPLY_MAX, "{took:?}");
    }
    assert_eq!(fixture.snapshot().jobs.len(), 3);
}

/// While the server is frozen, sleeps, or delays writes, pushes wait on the first connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_redis_is_no_half_open_connection() {
    let server = RedisServer::with_args(&["--enable-debug-command", "yes"]);
    let proxy = Proxy::start(server.port());
    let fixture = Fixture::through(&proxy.url(), &server).await;
    for what in ["frozen", "asleep", "paused"] {
        let before = proxy.accepted();
        match what {
            "frozen" => server.pause(),
            "asleep" => sleep_without_reply(&server),
            _ => drop(server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"])),
        }
        let over = Arc::<AtomicBool>::default();
        let pushes = tokio::spawn(push_until(Arc::clone(&over), fixture.queue.clone()));
        // Each overdue reply makes a second connection. When the next one is made, the first one decided nothing.
        eventually!(proxy.accepted() >= before + 2);
        match what {
            "frozen" => server.resume(),
            "asleep" => {}
            _ => drop(server.cli(&["CLIENT", "UNPAUSE"])),
        }
        over.store(true, Ordering::Relaxed);
        pushes.await.unwrap();
        let is_replaced = fixture.queue.reconnected(&mut 0).now_or_never().is_some();
        assert!(!is_replaced, "{what}: the connection was replaced");
    }
}

/// Always has a push under way. One that waits too long fails, and the next one waits in its place.
async fn push_until(over: Arc<AtomicBool>, queue: Queue) {
    let topic = TopicName::new("mail").unwrap();
    while !over.load(Ordering::Relaxed) {
        drop(queue.push(&topic, &[job("a")], IfExists::Keep).await);
    }
}

/// Blocks the server for eight seconds, as a slow script does.
fn sleep_without_reply(server: &RedisServer) {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    std::io::Write::write_all(&mut stream, b"DEBUG SLEEP 8\r\n").unwrap();
    std::thread::spawn(move || std::io::Read::read(&mut stream, &mut [0; 64]));
}
