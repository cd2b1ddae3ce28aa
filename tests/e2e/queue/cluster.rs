//! The key rules of Redis Cluster: a script uses only declared keys, all in one slot. The server runs in cluster
//! mode and owns only the slots of the topics, so it refuses other keys. `MONITOR` finds undeclared ones.

mod daemon;
mod life;

use std::collections::BTreeSet;
use std::net::TcpListener;

use duebox_harness::{RedisCluster, RedisServer, eventually};
use redis::{Client, RedisResult, Script, cmd};

use crate::support::monitor::{Command, Monitor, calls};
use crate::support::redis_state::{Store, key};

const TOPICS: [&str; 2] = ["order.close", "mail"];
/// The slots of a topic with two shards.
const SHARDS: [&str; 2] = ["hot", "hot#1"];
/// A topic and the targets of its follow-ups, of which the first refuses them.
const RELAYED: [&str; 3] = ["trimmed", "sick", "healthy"];

/// A server in cluster mode that has the slots of these topics, and of the set of topics.
fn cluster() -> RedisServer {
    let bus = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let redis = RedisServer::with_args(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus.to_string(),
        "--cluster-require-full-coverage",
        "no",
    ]);
    let store = Store::new(&redis.url());
    let topics = TOPICS.iter().chain(&SHARDS).chain(&RELAYED).map(|topic| key(topic, "jobs"));
    for name in topics.chain(["duebox:topics".to_owned()]) {
        let slot: u16 = store.ask(cmd("CLUSTER").arg("KEYSLOT").arg(name));
        let _: String = store.ask(cmd("CLUSTER").arg("ADDSLOTS").arg(slot));
    }
    eventually("the cluster serves its slots", || {
        store.ask::<String>(cmd("CLUSTER").arg("INFO")).contains("cluster_state:ok")
    });
    redis
}

/// The undeclared keys that scripts used.
fn undeclared(commands: &[Command]) -> BTreeSet<String> {
    let (mut declared, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    for command in commands {
        if !command.of_script && (command.is("EVALSHA") || command.is("EVALSHA_RO")) {
            let count: usize = command.words[2].parse().unwrap();
            declared = command.words[3..3 + count].iter().collect();
        }
        if command.of_script && !command.is("PUBLISH") {
            let keys = command.words[1..].iter().filter(|word| word.starts_with("duebox:"));
            // The doctor moves malformed keys to a name in the same slot.
            let is_aside = |name: &str| {
                let beside = name.split_once(":broken:").map(|(beside, _)| beside.to_owned());
                beside.is_some_and(|beside| declared.contains(&beside))
            };
            let bad = keys.filter(|key| !declared.contains(key) && !is_aside(key));
            wrong.extend(bad.map(|key| format!("{} {key}", command.words[0])));
        }
    }
    wrong
}

#[tokio::test]
async fn every_verb_uses_one_slot_and_its_declared_keys() {
    let redis = cluster();
    let monitor = Monitor::of(std::slice::from_ref(&redis));
    let queue = life::connect(&redis.url()).await;
    for topic in TOPICS {
        life::of(&queue, topic).await;
    }
    life::is_split(&redis.url()).await;
    life::is_trimmed(&redis.url()).await;
    let commands = monitor.commands_of(std::slice::from_ref(&redis));
    assert_eq!(undeclared(&commands), BTreeSet::new());
    let called = calls(&commands);
    let is_load = |command: &&Command| command.is("SCRIPT") && command.words[1] == "LOAD";
    let loaded: BTreeSet<&String> =
        commands.iter().filter(is_load).map(|load| &load.words[2]).collect();
    assert!(loaded.len() > 20, "the loading of scripts was not seen");
    let is_called = |source: &&&String| called.contains_key(Script::new(source).get_hash());
    let unknown: Vec<_> = loaded.iter().filter(|source| !is_called(source)).collect();
    // Valkey 8 does not escape the quotes of what MONITOR reports: there the digest of a script with quotes is not known.
    let hides_quotes = redis.cli(&["INFO", "server"]).contains("valkey_version:8.");
    assert!(hides_quotes || unknown.is_empty(), "not called, so not tested: {unknown:#?}");
    assert_eq!(loaded.len(), called.len(), "not called, so not tested, is one of {unknown:#?}");

    // The server also refuses a script that uses a key of another slot.
    let here = key(TOPICS[0], "jobs");
    let reach = "return redis.call('HLEN', ARGV[1])";
    let mut connection = Client::open(redis.url()).unwrap().get_connection().unwrap();
    let mut ask = |key: String| -> RedisResult<u64> {
        cmd("EVAL").arg(reach).arg(1).arg(&here).arg(key).query(&mut connection)
    };
    let refused = ask(key("elsewhere", "jobs")).unwrap_err();
    // Redis 7, then Redis 8.
    let reasons = ["non local key", "a slot not served"];
    assert!(reasons.iter().any(|reason| refused.to_string().contains(reason)), "{refused}");
    assert!(ask(key(TOPICS[0], "opts")).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_verb_works_over_three_primaries() {
    let cluster = RedisCluster::start(3);
    let url = cluster.url();
    let queue = life::connect(&url).await;
    let topics = ["order.close", "mail", "sms", "video", "invoice"];
    for topic in topics {
        life::of(&queue, topic).await;
    }
    life::is_split(&url).await;
    life::is_trimmed(&url).await;
    let primary_of = |topic: &&str| cluster.primary_of(&key(topic, "jobs"));
    let used: BTreeSet<usize> = topics.iter().map(primary_of).collect();
    assert_eq!(used.len(), 3, "each primary has a topic");
}

#[test]
fn an_undeclared_key_is_detected() {
    let command = |of_script, words: &[&str]| Command {
        of_script,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    let commands = [
        command(false, &["EVALSHA", "digest", "1", "duebox:{a}:jobs", "42"]),
        command(true, &["HGET", "duebox:{a}:jobs", "42"]),
        command(true, &["PUBLISH", "duebox:{a}:wake", "0"]),
        command(true, &["HGET", "duebox:{a}:opts", "42"]),
    ];
    assert_eq!(undeclared(&commands), BTreeSet::from(["HGET duebox:{a}:opts".to_owned()]));
}
