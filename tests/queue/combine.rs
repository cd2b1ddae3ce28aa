//! Pushes of one moment share script calls.

use std::time::Duration;

use duebox_harness::{RedisServer, patience};
use duebox_queue::{IfExists, NewJob, Pushed, QueueError};
use futures_util::FutureExt;
use futures_util::future::join_all;

use crate::fixture::{Fixture, job};
use crate::snapshot::ids;

/// The script calls that a server has carried out.
fn calls(server: &RedisServer) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

async fn push(fixture: &Fixture, name: &str) -> Result<Pushed, QueueError> {
    let jobs = [job(name)];
    let words = fixture.queue.push(&fixture.topic, &jobs, IfExists::Reject).await;
    words.map(|words| words[0])
}

/// Names of ids that sort as their numbers.
fn names(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("job-{number:04}")).collect()
}

#[tokio::test]
async fn pushes_of_one_moment_share_calls() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    push(&fixture, "first").await.unwrap();
    let before = calls(&server);
    let mut pushed = names(0..500);
    let again = names(0..1);
    let all = pushed.iter().chain(&again).map(|name| push(&fixture, name));
    let words: Vec<Pushed> = join_all(all).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(words.iter().filter(|word| **word == Pushed::Pushed).count(), 500);
    assert_eq!(words[500], Pushed::Exists, "it met the first job of its id in the same call");
    let calls = calls(&server) - before;
    assert!(calls <= 10, "501 pushes made {calls} calls");
    pushed.push("first".to_owned());
    pushed.sort_unstable();
    assert_eq!(ids(&fixture.snapshot().ready), pushed);
}

#[tokio::test]
async fn a_push_whose_caller_goes_away_holds_up_no_other() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    push(&fixture, "warm").await.unwrap();
    server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let mut first = Box::pin(push(&fixture, "first"));
    let mut joined = Box::pin(push(&fixture, "joined"));
    let mut left = Box::pin(push(&fixture, "left"));
    // Each is polled once: the first is sent, the others join.
    for waiting in [&mut first, &mut joined, &mut left] {
        assert!(waiting.now_or_never().is_none());
    }
    drop(first);
    drop(left);
    server.cli(&["CLIENT", "UNPAUSE"]);
    let word = tokio::time::timeout(patience(), joined).await.expect("nobody sent its call");
    assert_eq!(word, Ok(Pushed::Pushed));
    // The line is free again.
    assert_eq!(push(&fixture, "after").await, Ok(Pushed::Pushed));
}

#[tokio::test]
async fn an_error_reaches_each_caller_of_its_call_and_no_other() {
    let fixture = Fixture::new().await;
    let other = fixture.beside("mail").await;
    let _: () = fixture.redis(redis::cmd("SET").arg(fixture.key("jobs")).arg("a string"));
    let names = names(0..20);
    let sick = join_all(names.iter().map(|name| push(&fixture, name)));
    let sound = join_all(names.iter().map(|name| push(&other, name)));
    let (sick, sound) = tokio::join!(sick, sound);
    assert!(sick.iter().all(|word| matches!(word, Err(QueueError::BadData(_)))), "{sick:?}");
    assert!(sound.iter().all(|word| *word == Ok(Pushed::Pushed)), "{sound:?}");
}

/// Large payloads do not become one large call.
#[tokio::test]
async fn what_shares_a_call_is_bounded_by_its_bytes() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    push(&fixture, "first").await.unwrap();
    let before = calls(&server);
    let payload = bytes::Bytes::from(vec![b'x'; 200 << 10]);
    let names = names(0..30);
    let all = names.iter().map(|name| async {
        let jobs = [NewJob { payload: payload.clone(), ..job(name) }];
        fixture.queue.push(&fixture.topic, &jobs, IfExists::Reject).await
    });
    for words in join_all(all).await {
        assert_eq!(words, Ok(vec![Pushed::Pushed]));
    }
    assert!(calls(&server) - before >= 6, "30 payloads of 200 KiB take six calls of 1 MiB");
}

/// A topic appears in the set of topics with its first push, and again when the set was lost.
#[tokio::test]
async fn a_topic_is_announced_again_after_the_set_was_lost() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    push(&fixture, "first").await.unwrap();
    assert_eq!(fixture.queue.topics().await.unwrap(), std::slice::from_ref(&fixture.topic));
    server.cli(&["FLUSHALL"]);
    let announced = async {
        for number in 0.. {
            push(&fixture, &format!("again-{number}")).await.unwrap();
            if !fixture.queue.topics().await.unwrap().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(patience(), announced).await.expect("the topic stays unknown");
}
