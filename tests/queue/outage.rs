//! A Redis that forgets its scripts, goes away, does not answer, or is full.

use duebox_harness::{RedisServer, eventually};
use duebox_queue::{
    ConnectionSettings, IfExists, Leased, LeasedJobs, Notification, Promotion, Pushed, Queue,
    QueueError, Settled, Turn, Verdict,
};

use crate::fixture::{BACKOFF, CRASHES, Fixture, LEASE, call, drop_it, id, job, nack};
use crate::snapshot::ids;

fn flush_scripts(fixture: &Fixture) {
    let () = fixture.redis(redis::cmd("SCRIPT").arg("FLUSH"));
}

#[tokio::test]
async fn forgotten_scripts_are_loaded_again() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    flush_scripts(&fixture);
    fixture.push("a").await;
    flush_scripts(&fixture);
    let lease = fixture.lease_only("a").await;
    flush_scripts(&fixture);
    fixture.queue.cancel(&fixture.topic, &lease.id).await.unwrap();
    flush_scripts(&fixture);
    fixture.queue.peek(std::slice::from_ref(&fixture.shard)).await.unwrap();
    flush_scripts(&fixture);
    // A whole turn, in which every script is forgotten.
    let settle = [lease.settle(Verdict::Ack)];
    let call = call(9);
    let turn = Turn {
        settle: settle.iter().collect(),
        promote: Some(Promotion { jobs: 9, skip: 0, discards_bad: false }),
        lease: Some(&call),
        ..Turn::default()
    };
    let reply = fixture.turn(&turn).await;
    assert_eq!(reply.settled.unwrap(), [Settled::Done]);
    assert!(matches!(reply.leased, Some(Leased::Empty { .. })));
}

/// Scripts are forgotten again and again while jobs move; what was carried out is not done twice.
#[tokio::test]
async fn scripts_forgotten_in_the_middle_lose_and_double_nothing() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let mut acked = 0;
    for round in 0..100 {
        let batch: Vec<_> = (0..5).map(|i| job(&format!("{round}-{i}"))).collect();
        flush_scripts(&fixture);
        let pushed = fixture.push_many(&batch, IfExists::Reject).await;
        assert_eq!(pushed, [Pushed::Pushed; 5]);
        // Only some are known: EVAL of another text leaves the queue's forgotten.
        flush_scripts(&fixture);
        let leases = fixture.lease_up_to(5).await;
        assert_eq!(leases.len(), 5);
        let settle: Vec<_> = leases.into_iter().map(|l| l.settle(Verdict::Ack)).collect();
        let call = call(1);
        let turn = Turn { settle: settle.iter().collect(), lease: Some(&call), ..Turn::default() };
        let reply = fixture.turn(&turn).await;
        assert_eq!(reply.settled.unwrap(), [Settled::Done; 5]);
        acked += 5;
    }
    fixture.promote().await;
    assert_eq!((acked, fixture.keys()), (500, vec![]));
}

#[tokio::test]
async fn after_a_restart_the_queue_goes_on() {
    let mut server = RedisServer::with_args(&["--appendonly", "yes", "--appendfsync", "always"]);
    let fixture = Fixture::on(&server).await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    let mut listener = fixture.queue.listen().await.unwrap();

    server.restart();
    assert_eq!(tokio::time::timeout(LEASE, listener.next()).await.unwrap(), Notification::Lost);
    let settle = [lease.settle(Verdict::Ack)];
    let turn = Turn { settle: settle.iter().collect(), ..Turn::default() };
    let mut settled;
    eventually!(
        {
            // A try may meet the old connection; repeating it is what a runner does.
            settled = fixture.queue.turn(&fixture.shard, &turn).await.ok();
            settled.is_some()
        },
        "the connection comes back by itself"
    );
    assert_eq!(settled.unwrap().settled.unwrap(), [Settled::Done]);
    let again = fixture.queue.push(&fixture.topic, &[job("b")], IfExists::Reject).await.unwrap();
    assert_eq!(again, [Pushed::Pushed]);
    let mut listener = fixture.queue.listen().await.unwrap();
    fixture
        .queue
        .turn(
            &fixture.shard,
            &Turn {
                promote: Some(Promotion { jobs: 1, skip: 0, discards_bad: false }),
                ..Turn::default()
            },
        )
        .await
        .unwrap();
    fixture.queue.push(&fixture.topic, &[job("c")], IfExists::Reject).await.unwrap();
    let heard = tokio::time::timeout(LEASE, listener.next()).await.unwrap();
    assert_eq!(heard, Notification::WakeUp(fixture.shard.clone()));
}

#[tokio::test]
async fn a_redis_that_is_gone_is_an_error_that_says_so() {
    let mut server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    server.stop();
    let error =
        fixture.queue.push(&fixture.topic, &[job("a")], IfExists::Reject).await.unwrap_err();
    assert!(matches!(error, QueueError::NoReply(_)), "{error:?}");
    assert!(!error.is_final());
    let settings = ConnectionSettings::new(server.url());
    match Queue::connect(&settings, "duebox").await.map(drop) {
        Err(error @ QueueError::Unreachable { .. }) => {
            assert!(error.to_string().contains(&server.url()), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let malformed = ConnectionSettings::new("http://here".to_owned());
    let error = Queue::connect(&malformed, "duebox").await.map(drop).unwrap_err();
    assert!(matches!(error, QueueError::Address { .. }) && error.is_final(), "{error:?}");
}

/// A Redis that freezes answers nothing in time, yet carries out what it was sent when it goes on.
/// The same call again gives the same jobs.
#[tokio::test]
async fn a_lease_call_whose_answer_was_lost_is_answered_again() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.push("a").await;
    fixture.push("b").await;
    let lost = call(1);
    let turn = Turn { lease: Some(&lost), ..Turn::default() };
    server.pause();
    let error = fixture.queue.turn(&fixture.shard, &turn).await.unwrap_err();
    assert!(matches!(error, QueueError::NoReply(_)), "{error:?}");
    server.resume();
    let mut leased;
    eventually!(
        {
            leased = fixture.queue.turn(&fixture.shard, &turn).await.ok().and_then(|r| r.leased);
            leased.is_some()
        },
        "the frozen server answers again"
    );
    match leased {
        Some(Leased::Jobs(LeasedJobs { leases, .. })) => assert_eq!(leases[0].id.to_string(), "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ids(&fixture.snapshot().unack), ["a"], "the lost call and its repetition are one");
    assert_eq!(ids(&fixture.snapshot().ready), ["b"]);
}

fn limit_memory(fixture: &Fixture, bytes: &str) {
    let () = fixture.redis(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes));
}

/// At its memory limit Redis refuses commands that may grow it, and a push is refused whole.
#[tokio::test]
async fn a_full_redis_refuses_pushes() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.push("a").await;
    let before = fixture.snapshot().state();
    limit_memory(&fixture, "1");
    for mode in [IfExists::Reject, IfExists::Replace] {
        let jobs = [job("new"), job("a")];
        let error = fixture.queue.push(&fixture.topic, &jobs, mode).await.unwrap_err();
        assert!(matches!(&error, QueueError::Refused(why) if why.contains("OOM")), "{error:?}");
    }
    limit_memory(&fixture, "0");
    assert_eq!(fixture.snapshot().state(), before);
}

/// What is there still runs in a full Redis, or its memory would never be free again. Each call
/// meets one kind of job alone, since a script that has written once may go on.
#[tokio::test]
async fn a_full_redis_still_drains() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    for name in ["acked", "dropped", "expired", "nacked", "released"] {
        fixture.plain_push(name, "p", 0);
    }
    limit_memory(&fixture, "1");
    assert_eq!(fixture.promote().await.moved, 5);
    use Settled::{Dead, Done, Released, Retry};
    for lease in fixture.lease_up_to(9).await {
        let (verdict, word) = match lease.id.as_bytes() {
            b"acked" => (Verdict::Ack, Done),
            b"dropped" => (drop_it(), Dead),
            b"nacked" => (nack(), Retry),
            b"released" => (Verdict::Release { delay: BACKOFF }, Released),
            _ => continue,
        };
        assert_eq!(fixture.settle(lease, verdict).await, word);
    }

    let pass = |time| {
        limit_memory(&fixture, "0");
        fixture.advance(time, &mut []);
        limit_memory(&fixture, "1");
    };
    pass(BACKOFF);
    assert_eq!(fixture.promote().await.moved, 2, "nacked and released");
    assert_eq!(fixture.reclaim().await.jobs, [(id("expired"), Retry)]);
    for crashes in 1..CRASHES {
        pass(BACKOFF);
        assert_eq!(fixture.promote().await.moved, 1);
        let leases = fixture.lease_up_to(9).await;
        assert!(leases.iter().any(|l| l.id == id("expired") && l.crashes == crashes));
        for lease in leases.into_iter().filter(|lease| lease.id != id("expired")) {
            assert_eq!(fixture.settle(lease, Verdict::Ack).await, Done);
        }
        pass(LEASE);
        assert_eq!(fixture.reclaim().await.jobs.len(), 1);
    }
    limit_memory(&fixture, "0");
    fixture.plain_push("bad", "p", 5);
    limit_memory(&fixture, "1");
    assert_eq!(fixture.promote().await.bad, 1);
    limit_memory(&fixture, "0");
    assert_eq!(ids(&fixture.snapshot().dead), ["bad", "dropped", "expired"]);
    assert!(fixture.snapshot().jobs.is_empty());
}

/// A running job keeps its lease in a full Redis. Otherwise it would run again, and be buried as crashed.
#[tokio::test]
async fn a_full_redis_renews_leases() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.plain_push("a", "p", 0);
    fixture.promote().await;
    let lease = fixture.lease_up_to(1).await.remove(0);
    limit_memory(&fixture, "1");
    let token = fixture.extend(&lease, LEASE).await.expect("the lease is renewed");
    limit_memory(&fixture, "0");
    assert!(token.expires_at_us() > lease.token.expires_at_us(), "{token:?}");
    assert_eq!(fixture.extend(&lease, LEASE).await, Some(token), "repeating it answers the same");
}

#[tokio::test]
async fn a_wrong_password_is_refused_in_words() {
    let server = RedisServer::with_args(&["--requirepass", "secret"]);
    let settings = |password: Option<&str>| match password {
        None => ConnectionSettings::new(server.url()),
        Some(password) => ConnectionSettings::new(server.url()).with_password(password),
    };
    assert!(Queue::connect(&settings(Some("secret")), "duebox").await.is_ok());
    for wrong in [None, Some("guess")] {
        let error = Queue::connect(&settings(wrong), "duebox").await.map(drop).unwrap_err();
        let shown = error.to_string();
        assert!(matches!(error, QueueError::Login { .. }), "{error:?}");
        assert!(shown.contains("redis.password") && !shown.contains("guess"), "{shown}");
    }
}
