//! The values of a valid manifest, written or default.

use std::num::{NonZero, NonZeroU64};
use std::path::Path;
use std::time::Duration;

use duebox::manifest::{
    BreakerRule, CacheFolder, EndedRetention, KeyOrder, LogFormat, Manifest, Password, RateLimit,
    RecordPolicy, RedisUrl, Rollback, Secret, SecretSource, StartLimits,
};
use duebox::schedule::Missed;
use duebox_job::{Backoff, FailureClass, Policy, Rate, TopicName};
use duebox_queue::{Durability, IfExists};
use duebox_sandbox::{Digest, Instances};

use super::{accepted, environment, name, seconds};

#[test]
fn missing_keys_have_the_defaults() {
    let manifest = accepted("minimal.toml");
    let redis = &manifest.redis;
    assert_eq!(redis.url, RedisUrl::Url("redis://127.0.0.1:6379/0".to_owned()));
    assert_eq!((&redis.password, redis.prefix.as_str()), (&None, "duebox"));
    assert_eq!(redis.poll, Duration::from_secs(1));
    let runner = &manifest.runner;
    assert!(runner.threads >= 1);
    assert_eq!((runner.max_jobs, runner.lease), (256, Duration::from_secs(15)));
    assert_eq!((runner.memory, &runner.cache), (1 << 30, &None), "the environment has no home");
    assert_eq!(runner.drain_timeout, Duration::from_secs(25));
    assert_eq!((runner.log.as_str(), runner.log_format), ("info", LogFormat::Auto));
    let topic = &manifest.topics[&TopicName::new("hello").unwrap()];
    assert_eq!(topic.handler.as_deref(), Some(Path::new("./hello.wasm")));
    assert_eq!((topic.concurrency, topic.delay), (64, Duration::ZERO));
    assert_eq!((topic.ttr, topic.retries.max_attempts), (Duration::from_secs(30), 8));
    assert_eq!(topic.retries.backoff, Backoff::default());
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(topic.retention, EndedRetention { dead: week, done: None, max_dead: 100_000 });
    assert_eq!(topic.if_exists, IfExists::Reject);
    assert_eq!(topic.retries.on[&FailureClass::Timeout], Policy::Retry);
    assert_eq!(topic.retries.on[&FailureClass::BadVerdict], Policy::Dead);
    assert_eq!((topic.limits.memory, topic.limits.payload), (64 << 20, 1 << 20));
    assert_eq!((topic.limits.module, topic.limits.log), (16 << 20, 64 << 10));
    assert_eq!((topic.limits.tables, topic.limits.fuel), (100_000, None));
    assert_eq!((topic.limits.instances, topic.sha256), (Instances::default(), None));
    assert!(topic.grants.config.is_empty() && topic.grants.env.is_empty());
    assert_eq!(topic.grants.push, None);
    assert_eq!((topic.retries.max_snoozes, topic.retries.max_crashes.get()), (100, 3));
    assert_eq!((topic.max_pending, topic.unique_for), (None, Duration::ZERO));
    let starts = StartLimits {
        max_running: None,
        rate: None,
        per_key_concurrency: None,
        order: KeyOrder::Strict,
        ttl: None,
        priorities: false,
    };
    assert_eq!((&topic.starts, topic.shards.get()), (&starts, 1));
    assert!(manifest.patterns.is_empty() && manifest.schedules.is_empty());
    assert_eq!(
        topic.breaker,
        BreakerRule { failures: NonZero::new(20), probe: seconds(30), ..BreakerRule::default() }
    );
}

#[test]
fn keys_of_a_topic_override_those_of_the_defaults() {
    let manifest = accepted("full.toml");
    let redis = &manifest.redis;
    assert_eq!(redis.url, RedisUrl::Url("redis://redis.example:6380/2".to_owned()));
    assert_eq!(redis.password, Some(Password::Text(Secret::new("hunter2"))));
    assert_eq!((redis.prefix.as_str(), redis.poll), ("shop", Duration::from_millis(500)));
    assert_eq!(redis.durability, Durability::Replica);
    assert_eq!(redis.node_address_map["10.0.0.1:6379"], "c1.example:6379");
    assert_eq!((manifest.runner.threads, manifest.runner.max_jobs), (3, 100));
    assert_eq!(manifest.runner.log, "warn,duebox=debug");
    let collector = manifest.runner.otlp.as_ref().map(url::Url::as_str);
    assert_eq!(collector, Some("https://collector.example:4318/tenant"));
    assert_eq!(manifest.runner.events, 5_000);
    assert_eq!(manifest.server.cors, ["https://shop.example", "http://localhost:3000"]);
    let cache = CacheFolder { path: "./compiled".into(), is_named: true };
    assert_eq!((manifest.runner.memory, &manifest.runner.cache), (2 << 30, &Some(cache)));
    let close = &manifest.topics[&TopicName::new("order.close").unwrap()];
    assert_eq!((close.concurrency, close.ttr), (8, Duration::from_secs(45)));
    assert_eq!((close.retries.max_attempts, close.retries.max_crashes.get()), (8, 2));
    assert_eq!(close.if_exists, IfExists::Replace);
    assert_eq!(close.retries.on[&FailureClass::Trap], Policy::Retry);
    assert_eq!(close.retries.on[&FailureClass::Exit], Policy::Discard);
    assert_eq!((close.limits.memory, close.limits.payload), (32 << 20, 2 << 10));
    assert_eq!(
        (close.limits.log, close.limits.tables, close.limits.fuel),
        (0, 10, NonZeroU64::new(1_000_000))
    );
    assert_eq!(close.limits.instances, Instances { snapshot: true, jobs_each: 50 });
    assert_eq!(close.sha256, Some(Digest::of(b"abc")));
    assert_eq!(close.grants.env["SHOP"], "eu-1");
    let config = |name: &str| close.grants.config[name].as_str();
    assert_eq!((config("region"), config("tier"), config("price")), ("eu", "gold", "$5"));
    assert_eq!((config("retries"), config("half"), config("on")), ("3", "0.5", "true"));
    assert_eq!((config("list"), config("nested")), (r#"[1,"eu"]"#, r#"{"day":"2026-11-21"}"#));
    assert_eq!(
        close.breaker,
        BreakerRule {
            failures: NonZero::new(5),
            probe: seconds(120),
            on: [FailureClass::Trap, FailureClass::Nack].into_iter().collect()
        }
    );
    let plain = &manifest.topics[&TopicName::new("plain").unwrap()];
    assert_eq!(plain.breaker.failures, None);
    assert_eq!(plain.handler.as_deref(), Some(Path::new("/opt/handlers/plain.wat")));
    assert_eq!((plain.retries.max_attempts, plain.ttr), (3, Duration::from_secs(10)));
    let wait = |failures| plain.retries.backoff.delay(failures, 0.9);
    assert_eq!((wait(1), wait(2), wait(9)), (seconds(5), seconds(15), seconds(600)));
}

fn rate(text: &str, burst: u32) -> Option<RateLimit> {
    let (rate, burst) = (Rate::parse(text).unwrap(), NonZero::new(burst).unwrap());
    Some(RateLimit { rate, burst })
}

#[test]
fn limits_of_a_topic_are_read() {
    let manifest = accepted("full.toml");
    let close = &manifest.topics[&name("order.close")];
    let starts = StartLimits {
        max_running: NonZero::new(20),
        rate: rate("30/m", 4),
        per_key_concurrency: NonZero::new(1),
        order: KeyOrder::Relaxed,
        ttl: Some(seconds(3_600)),
        priorities: false,
    };
    assert_eq!((&close.starts, close.shards.get()), (&starts, 8));
    assert_eq!((close.max_pending, close.unique_for), (NonZero::new(5_000), seconds(600)));
    assert_eq!((close.retention.done, close.retention.max_dead), (Some(seconds(86_400)), 10));
    assert_eq!(close.retries.max_snoozes, 7);
    assert_eq!(close.retries.on[&FailureClass::Crashed], Policy::Discard);
    assert_eq!(close.retries.on[&FailureClass::Orphan], Policy::Discard);
    assert_eq!(close.grants.push.as_deref(), Some(&["sms.*".to_owned(), "mail".to_owned()][..]));
    let plain = &manifest.topics[&name("plain")];
    assert_eq!((plain.starts.rate, plain.starts.priorities), (rate("100/s", 10), true));
    assert_eq!(plain.starts.max_running, NonZero::new(200));
    assert_eq!(plain.grants.push.as_deref(), Some(&["audit".to_owned()][..]));
    let pulled = &manifest.topics[&name("pulled.from.outside")];
    assert_eq!((pulled.handler.as_ref(), pulled.starts.rate), (None, None));
    let wait = |failures| pulled.retries.backoff.delay(failures, 0.9);
    assert_eq!((wait(1), wait(9), pulled.retries.max_attempts), (seconds(10), seconds(10), 8));
}

#[test]
fn grants_are_merged_with_the_defaults_and_secrets_are_not_shown() {
    let manifest = accepted("full.toml");
    let close = &manifest.topics[&name("order.close")];
    let http = close.grants.http.as_ref().unwrap();
    let allowed: Vec<String> = http.allow.iter().map(ToString::to_string).collect();
    assert_eq!(
        allowed,
        ["https://api.shop.example", "*.internal.example:8443", "http://localhost:*"]
    );
    let private: Vec<String> = http.private.iter().map(ToString::to_string).collect();
    assert_eq!((private.join(" "), http.body_max), ("127.0.0.1/32 fd00::/8".to_owned(), 64 << 20));
    assert!(!close.grants.kv);
    let dirs: Vec<(&str, &Path)> =
        close.grants.dirs.iter().map(|(guest, host)| (guest.as_str(), host.as_path())).collect();
    let (root, etc) = (Path::new("/"), Path::new("/etc"));
    assert_eq!(dirs, [("/", root), ("/data/zones", Path::new(".")), ("/etc", etc)]);
    let variable = |name: &str| SecretSource::Variable(name.to_owned());
    let secret = |name: &str| (close.grants.config[name].as_str(), close.secrets[name].clone());
    assert_eq!(secret("api_key"), ("hunter2", variable("REDIS_PASSWORD")));
    assert_eq!(secret("token"), ("eu", variable("REGION")));
    let plain = &manifest.topics[&name("plain")];
    let http = plain.grants.http.as_ref().unwrap();
    assert_eq!((http.allow.len(), http.private.len(), http.body_max), (0, 1, 1 << 20));
    assert!(plain.grants.kv && !plain.secrets.contains_key("api_key"));
    assert_eq!(manifest.topics[&name("pulled.from.outside")].grants.http, None);
    assert!(!format!("{manifest:?}").contains("hunter2"));
}

#[test]
fn smoke_cases_of_a_topic_replace_those_of_the_defaults() {
    let manifest = accepted("full.toml");
    let cases = |topic: &str| -> Vec<(Vec<u8>, &str)> {
        let cases = &manifest.topics[&name(topic)].smoke;
        cases.iter().map(|case| (case.payload.to_vec(), case.expected.verdict.word())).collect()
    };
    let close = &manifest.topics[&name("order.close")];
    assert_eq!(
        (close.record, &close.tests[..]),
        (RecordPolicy::Off, &[Path::new("./cases/close.toml").to_owned()][..])
    );
    assert_eq!(manifest.topics[&name("plain")].record, RecordPolicy::Failures);
    let close = [(br#"{"region":"eu"}"#.to_vec(), "ack"), (b"bad".to_vec(), "drop")];
    assert_eq!(cases("order.close")[..2], close);
    assert_eq!(cases("order.close")[2..], [(Vec::new(), "snooze")]);
    assert_eq!(cases("plain"), [(b"{}".to_vec(), "nack")]);
    let many = format!("[topics.a]\nhandler = \"a\"\nsmoke = [{}]\n", "{},".repeat(101));
    let refused = Manifest::parse(Path::new("m.toml"), many, &environment()).unwrap_err();
    assert!(refused.to_string().contains("there are 101 smoke cases"), "{refused}");
}

#[test]
fn rollback_and_canary_are_read() {
    let manifest = accepted("full.toml");
    let rollback = |topic: &str| manifest.topics[&name(topic)].rollback;
    let close = Rollback { window: seconds(600), min_jobs: NonZero::new(10), ratio: 1.5 };
    assert_eq!(rollback("order.close"), close);
    assert_eq!(rollback("plain"), Rollback { min_jobs: NonZero::new(50), ratio: 2.0, ..close });
    let reference = accepted("minimal.toml").topics[&name("hello")].clone();
    assert_eq!(
        reference.rollback,
        Rollback { window: seconds(60), min_jobs: NonZero::new(50), ratio: 3.0 }
    );
    assert_eq!((reference.canary, reference.smoke), (None, Vec::new()));
    let canary = manifest.topics[&name("order.close")].canary.clone().unwrap();
    assert_eq!(
        (canary.handler.as_path(), canary.share),
        (Path::new("./handlers/next.wasm"), 1_250)
    );
    assert_eq!(canary.sha256, manifest.topics[&name("order.close")].sha256);
    let share = |percent: &str| {
        let keys = format!("canary = {{ handler = \"b\", percent = {percent} }}");
        let text = format!("[topics.a]\nhandler = \"a\"\n{keys}\n");
        let manifest = Manifest::parse(Path::new("m.toml"), text, &environment()).unwrap();
        manifest.topics[&name("a")].canary.as_ref().map(|canary| canary.share)
    };
    assert_eq!(
        [share("0"), share("0.01"), share("5"), share("100")],
        [None, Some(1), Some(500), Some(10_000)]
    );
}

#[test]
fn schedules_are_read_in_the_order_of_the_file() {
    let schedules = accepted("full.toml").schedules;
    let found: Vec<(&str, &str, String)> =
        schedules.iter().map(|s| (s.name.as_str(), s.topic.as_str(), s.when.describe())).collect();
    assert_eq!(
        found,
        [
            ("nightly", "order.close", "0 3 * * * (Asia/Shanghai)".to_owned()),
            ("beat", "sms.eu.de", "every 5m".to_owned()),
            ("hourly", "plain", "@hourly (UTC)".to_owned()),
        ]
    );
    let missed: Vec<Missed> = schedules.iter().map(|schedule| schedule.missed).collect();
    assert_eq!(missed, [Missed::All, Missed::Skip, Missed::Once]);
    let windows: Vec<u64> = schedules.iter().map(|s| s.window.as_secs()).collect();
    assert_eq!(windows, [7_200, 3_600, 3_600]);
    let payloads: Vec<&[u8]> = schedules.iter().map(|s| s.payload.as_ref()).collect();
    assert_eq!(payloads, [&b"{}"[..], br#"{"region":"eu","to":[1,2]}"#, b""]);
}

#[test]
fn too_many_schedules_are_refused() {
    let entry = "[[schedules]]\nname = \"NAME\"\ntopic = \"a\"\nevery = \"1s\"\n";
    let parse = |count: usize| {
        let entries = (0..count).map(|at| entry.replace("NAME", &format!("s{at}")));
        let text = entries.chain(["[topics.a]\n".to_owned()]).collect();
        Manifest::parse(Path::new("m.toml"), text, &environment())
    };
    assert_eq!(parse(1_000).unwrap().schedules.len(), 1_000);
    let refused = parse(1_001).unwrap_err().to_string();
    assert!(refused.contains("there are 1001 schedules"), "{refused}");
}
