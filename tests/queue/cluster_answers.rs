//! What the answers of a cluster's servers lead to: a command that was answered is not sent again with one that was not,
//! errors of a moment are repeated within bounds, and the newest configuration wins.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use duebox_harness::RedisServer;
use duebox_queue::{ConnectionSettings, KvWrite, Queue, QueueError};
use parking_lot::Mutex;

use crate::cluster::topic;
use crate::fake_node::{Answer, FakeNode};

/// Errors of a moment, of which none says that the command was carried out.
const OF_A_MOMENT: [&str; 4] = [
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "LOADING Redis is loading the dataset in memory",
];

/// How often each command was carried out, by its key, at all nodes of a test.
type Counts = Arc<Mutex<HashMap<String, u64>>>;

fn carry_out(counts: &Counts, words: &[String]) -> Answer {
    let is_script = words[0].starts_with("EVALSHA");
    let key = if is_script { &words[3] } else { &words[1] };
    let mut counts = counts.lock();
    let count = counts.entry(key.clone()).or_default();
    *count += 1;
    if is_script {
        let sum = count.to_string();
        return Answer::Reply(format!("*2\r\n$2\r\nok\r\n${}\r\n{sum}\r\n", sum.len()));
    }
    Answer::int(*count)
}

fn url(nodes: &[u16]) -> String {
    let nodes: Vec<String> = nodes.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("redis-cluster://{}", nodes.join(","))
}

async fn connect(nodes: &[u16]) -> Result<Queue, QueueError> {
    Queue::connect(&ConnectionSettings::new(url(nodes)), "duebox").await
}

/// Two nodes. The first one has all slots, and answers the first command on key `b`, or of the store, like this; the
/// second one carries out what it is sent.
async fn pair(first_answer: impl Fn(u16) -> Answer + Send + Sync + 'static) -> (Queue, Counts) {
    let counts = Counts::default();
    let (first, second) = (FakeNode::bind(), FakeNode::bind());
    let (port, other) = (first.port, second.port);
    let (at_first, at_second) = (Arc::clone(&counts), Arc::clone(&counts));
    let asked = Mutex::new(false);
    first.serve(port, 1, move |words| {
        let is_meant = words[0].starts_with("EVALSHA") || words[1] == "b";
        if is_meant && !std::mem::replace(&mut *asked.lock(), true) {
            return first_answer(other);
        }
        carry_out(&at_first, words)
    });
    second.serve(port, 1, move |words| carry_out(&at_second, words));
    (connect(&[port]).await.unwrap(), counts)
}

/// Adds once to each of three keys in one pipeline.
async fn add_three(queue: &Queue) -> redis::RedisResult<Vec<u64>> {
    let mut adds = redis::pipe();
    for key in ["a", "b", "c"] {
        adds.cmd("INCR").arg(key);
    }
    adds.query_async(&mut queue.redis()).await
}

/// The answers that have a command sent again.
fn again() -> Vec<Box<dyn Fn(u16) -> Answer + Send + Sync>> {
    let mut answers: Vec<Box<dyn Fn(u16) -> Answer + Send + Sync>> = vec![
        Box::new(|other| Answer::error(&format!("MOVED 3300 127.0.0.1:{other}"))),
        Box::new(|other| Answer::error(&format!("ASK 3300 127.0.0.1:{other}"))),
    ];
    for line in OF_A_MOMENT {
        answers.push(Box::new(move |_| Answer::error(line)));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_command_that_was_not_carried_out_is_sent_again() {
    for (number, answer) in again().into_iter().enumerate() {
        let (queue, counts) = pair(answer).await;
        assert_eq!(add_three(&queue).await.unwrap(), [1, 1, 1], "answer {number}");
        let of = |key: &str| counts.lock().get(key).copied();
        assert_eq!([of("a"), of("b"), of("c")], [Some(1); 3], "answer {number}");
    }
    for (number, answer) in again().into_iter().enumerate() {
        let (queue, counts) = pair(answer).await;
        let added = queue.kv_add(&topic("mail"), b"n", 1).await.unwrap();
        assert_eq!(added, KvWrite::Done(1), "answer {number}");
        assert_eq!(counts.lock().values().sum::<u64>(), 1, "answer {number}");
    }
}

/// Whether a command without a reply was carried out is unknown: it fails, and nothing is added twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_addition_whose_link_drops_counts_once_at_most() {
    let (queue, counts) = pair(|_| Answer::Close).await;
    let added = queue.kv_add(&topic("mail"), b"n", 1).await;
    assert!(matches!(&added, Err(error) if error.is_disconnected()), "{added:?}");
    assert_eq!(counts.lock().values().sum::<u64>(), 0);
    let (queue, counts) = pair(|_| Answer::Close).await;
    add_three(&queue).await.unwrap_err();
    assert!(counts.lock().values().all(|count| *count == 1), "{:?}", counts.lock());
    // The next call has another link.
    assert_eq!(queue.kv_add(&topic("mail"), b"n", 1).await.unwrap(), KvWrite::Done(1));
}

/// A primary that was cut off still says that it has all slots.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_configuration_says_where_the_slots_are() {
    for stale_is_first in [true, false] {
        let [of_stale, of_new] = [Counts::default(), Counts::default()];
        let (stale, new) = (FakeNode::bind(), FakeNode::bind());
        let ports = [stale.port, new.port];
        let (at_stale, at_new) = (Arc::clone(&of_stale), Arc::clone(&of_new));
        stale.serve(ports[0], 3, move |words| carry_out(&at_stale, words));
        new.serve(ports[1], 4, move |words| carry_out(&at_new, words));
        let seeds = if stale_is_first { ports } else { [ports[1], ports[0]] };
        let queue = connect(&seeds).await.unwrap();
        assert_eq!(add_three(&queue).await.unwrap(), [1, 1, 1]);
        assert_eq!((of_stale.lock().len(), of_new.lock().len()), (0, 3), "{seeds:?}");
    }
}

/// Servers that accept connections and answer nothing delay nothing: all are asked at once.
#[tokio::test(flavor = "multi_thread")]
async fn silent_seeds_are_asked_at_once() {
    let silent: Vec<FakeNode> = (0..15).map(|_| FakeNode::bind()).collect();
    let began = Instant::now();
    let error = connect(&[silent[0].port]).await.map(drop).unwrap_err();
    let for_one = began.elapsed();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    let mut seeds: Vec<u16> = silent.iter().map(|node| node.port).collect();
    let began = Instant::now();
    connect(&seeds).await.map(drop).unwrap_err();
    assert!(began.elapsed() < 2 * for_one, "{:?} for 15, {for_one:?} for one", began.elapsed());
    let node = FakeNode::bind();
    seeds.push(node.port);
    let counts = Counts::default();
    let port = node.port;
    node.serve(port, 1, move |words| carry_out(&counts, words));
    let began = Instant::now();
    let queue = connect(&seeds).await.unwrap();
    assert!(began.elapsed() < for_one, "{:?}, {for_one:?} for one", began.elapsed());
    assert_eq!(queue.cluster_primaries(), [format!("127.0.0.1:{port}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_seeds_is_said_in_one_line() {
    let closed: Vec<u16> = (0..3).map(|_| FakeNode::bind().port).collect();
    let error = connect(&closed).await.map(drop).unwrap_err();
    assert!(matches!(&error, QueueError::Unreachable { .. }), "{error}");
    assert!(error.remedy().is_some() && error.to_string().contains(&url(&closed)), "{error}");
    let guarded =
        RedisServer::with_args(&["--cluster-enabled", "yes", "--requirepass", "open sesame"]);
    // The failure with a remedy of its own, though another seed is dead.
    let error = connect(&[closed[0], guarded.port()]).await.map(drop).unwrap_err();
    assert!(matches!(&error, QueueError::Login { .. }), "{error}");
    assert!(error.to_string().contains("redis.password"), "{error}");
    let single = RedisServer::start();
    let error = connect(&[closed[0], single.port()]).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("write redis://"), "{error}");
}
