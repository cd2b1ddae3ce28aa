//! The interceptor of a run: it sees what a guest reads from the host, may answer it, and may end the guest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use duebox_job::FailureClass;
use duebox_sandbox::{
    Grants, HostAnswer, HostClock, HostRequest, HostServices, HttpFailure, HttpGrant, HttpResponse,
    Interceptor, KvEntry, Limits, MemoryKv,
};

use crate::support::{TestRun, job, load_with, run_in};

/// Reads each thing once, and returns all of it as the result.
const READS: &str = r#"(module
  (import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "duebox_v1" "config_read" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "kv_add" (func $add (param i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "env" "seed" (func $seed (result f64)))
  (import "wasi_snapshot_preview1" "clock_time_get"
    (func $clock (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "region")
  (data (i32.const 16) "key")
  (data (i32.const 32) "GET http://api.example/a\n")
  (func (export "handle") (param i32) (result i32)
    (i64.store (i32.const 1024) (call $meta (i32.const 8)))
    (i64.store (i32.const 1032) (call $meta (i32.const 6)))
    (i64.store (i32.const 1040) (call $meta (i32.const 9)))
    (call $random (i32.const 1048) (i32.const 8))
    (drop (call $random_get (i32.const 1056) (i32.const 8)))
    (drop (call $clock (i32.const 0) (i64.const 1) (i32.const 1064)))
    (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 1072)))
    (f64.store (i32.const 1080) (call $seed))
    (drop (call $config (i32.const 0) (i32.const 6) (i32.const 512) (i32.const 8)))
    (drop (call $get (i32.const 16) (i32.const 3) (i32.const 1088) (i32.const 8)))
    (drop (call $set (i32.const 16) (i32.const 3) (i32.const 16) (i32.const 3) (i64.const 0) (i32.const 0)))
    (drop (call $add (i32.const 0) (i32.const 6) (i64.const 5) (i32.const 1096)))
    (i64.store (i32.const 1104) (i64.extend_i32_s
      (call $send (i32.const 32) (i32.const 25) (i32.const 0) (i32.const 0) (i32.const 0))))
    (drop (call $read (i32.const 1) (i32.const 1112) (i32.const 0) (i32.const 8)))
    (drop (call $result (i32.const 1024) (i32.const 96)))
    (i32.const 0)))"#;

/// Answers as it is told, and keeps what it sees.
#[derive(Default)]
struct Seen {
    answers: Mutex<Vec<HostAnswer>>,
    requests: Mutex<Vec<String>>,
    answered: Mutex<Vec<HostAnswer>>,
}

impl Interceptor for Seen {
    fn answer(&self, request: &HostRequest<'_>) -> Option<HostAnswer> {
        self.requests.lock().unwrap().push(format!("{request:?}"));
        let mut answers = self.answers.lock().unwrap();
        (!answers.is_empty() && !matches!(request, HostRequest::Config(_)))
            .then(|| answers.remove(0))
    }

    fn answered(&self, _: &HostRequest<'_>, answer: &HostAnswer) {
        self.answered.lock().unwrap().push(answer.clone());
    }
}

async fn run(interceptor: Option<Arc<dyn Interceptor>>) -> TestRun {
    let grants = Grants {
        config: BTreeMap::from([("region".to_owned(), "eu".to_owned())]),
        kv: true,
        http: Some(HttpGrant {
            allow: vec!["http://api.example".parse().unwrap()],
            ..HttpGrant::default()
        }),
        ..Grants::default()
    };
    let handler = load_with(READS, Limits::default(), grants);
    run_in(&handler, job(), |logs| HostServices {
        kv: Some(Arc::new(MemoryKv::new())),
        interceptor,
        ..HostServices::with_logs(logs)
    })
    .await
}

fn words(run: &TestRun) -> Vec<u64> {
    let result = run.report.result.as_ref().expect("an ack with a result");
    result.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[tokio::test]
async fn what_the_host_answered_makes_the_same_run_again() {
    let recorder = Arc::new(Seen::default());
    let recorded = run(Some(Arc::clone(&recorder) as _)).await;
    let answers = recorder.answered.lock().unwrap().clone();
    assert_eq!(answers.len(), 12, "{answers:?}");
    let asked = recorder.requests.lock().unwrap().clone();
    assert_eq!(asked.len(), 13, "{asked:?}");
    assert_eq!(asked[8], "Config(\"region\")");

    let replay = Arc::new(Seen::default());
    *replay.answers.lock().unwrap() = answers;
    let replayed = run(Some(Arc::clone(&replay) as _)).await;
    assert_eq!(words(&replayed), words(&recorded));
    assert_eq!(*replay.requests.lock().unwrap(), asked);
    assert!(replay.answered.lock().unwrap().is_empty(), "the host was asked");
    let figures =
        |run: &TestRun| (run.report.host_calls, run.report.bytes_in, run.report.bytes_out);
    assert_eq!(figures(&replayed), figures(&recorded));
    assert_eq!(figures(&run(None).await), figures(&recorded));
}

#[tokio::test]
async fn an_interceptor_answers_in_place_of_the_host() {
    let half = Bytes::copy_from_slice(&(1_u64 << 63).to_le_bytes());
    let answers = vec![
        HostAnswer::Clock(1),
        HostAnswer::Clock(2),
        HostAnswer::Clock(3),
        HostAnswer::Random(vec![7; 8].into()),
        HostAnswer::Random(vec![9].into()),
        HostAnswer::Clock(4),
        HostAnswer::Clock(5),
        HostAnswer::Random(half),
        HostAnswer::KvEntry(Ok(Some(KvEntry { value: "12345678".into(), revision: 1 }))),
        HostAnswer::KvDone(Ok(true)),
        HostAnswer::KvSum(Ok(6)),
        HostAnswer::Http(Ok(HttpResponse {
            status: 204,
            headers: String::new(),
            body: "87654321".into(),
        })),
    ];
    let seen = Arc::new(Seen { answers: Mutex::new(answers), ..Seen::default() });
    let run = run(Some(Arc::clone(&seen) as _)).await;
    let word = |text: &[u8; 8]| u64::from_le_bytes(*text);
    let wanted = [
        1,
        2,
        3,
        word(&[7; 8]),
        9,
        4,
        5,
        0.5_f64.to_bits(),
        word(b"12345678"),
        6,
        204,
        word(b"87654321"),
    ];
    assert_eq!(words(&run), wanted);
    let requests = seen.requests.lock().unwrap();
    assert_eq!(requests[0], format!("{:?}", HostRequest::Clock(HostClock::Now)));
    assert!(requests.last().unwrap().contains("http://api.example/a"), "{requests:?}");
}

#[tokio::test]
async fn a_call_without_an_answer_ends_the_guest() {
    let failing = |answer: HostAnswer| {
        let mut answers = vec![HostAnswer::Clock(1); 3];
        answers.extend([HostAnswer::Random(Bytes::new()), HostAnswer::Random(Bytes::new())]);
        answers.extend([HostAnswer::Clock(1), HostAnswer::Clock(1)]);
        answers.extend([HostAnswer::Random(Bytes::new()), HostAnswer::KvEntry(Ok(None))]);
        answers.extend([HostAnswer::KvDone(Ok(false)), HostAnswer::KvSum(Ok(0)), answer]);
        Arc::new(Seen { answers: Mutex::new(answers), ..Seen::default() })
    };
    let stopped = run(Some(failing(HostAnswer::Stop("no answer to this".to_owned())))).await;
    let (class, reason) = stopped.class();
    assert_eq!(class, FailureClass::Trap);
    assert!(reason.starts_with("no answer to this"), "{reason}");

    let failure = HttpFailure { code: -6, text: "away".to_owned() };
    let failed = run(Some(failing(HostAnswer::Http(Err(failure))))).await;
    assert_eq!(words(&failed)[10], (-6_i64).cast_unsigned());
}
