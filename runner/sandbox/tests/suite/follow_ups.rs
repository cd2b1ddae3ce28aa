//! The import `push`: which follow-up jobs are accepted, their ids, and when they count.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{
    FailureClass, FollowUp, FollowUpDue, JobId, Options, Outcome, Priority, TopicName,
};
use duebox_sandbox::{Grants, Handler, Limits};

use crate::support::{TestRun, job, load_with, run};

/// The address of each head in the guest's memory, and the space for it.
const HEAD_AT: usize = 1_024;
const HEAD_ROOM: usize = 256;

/// A module with these heads in its memory and this body of `handle`. In the body, `(push N)` stands for a
/// push of the N-th head with the payload `{"n":1}`.
fn push_module(pages: u32, heads: &[&str], body: &str) -> String {
    let mut data = String::new();
    let mut body = body.to_owned();
    for (index, head) in heads.iter().enumerate() {
        assert!(head.len() <= HEAD_ROOM);
        let at = HEAD_AT + index * HEAD_ROOM;
        let bytes: String = head.bytes().map(|byte| format!("\\{byte:02x}")).collect();
        data.push_str(&format!("(data (i32.const {at}) \"{bytes}\")\n"));
        let call = format!(
            "(call $push (i32.const {at}) (i32.const {}) (i32.const 256) (i32.const 7))",
            head.len()
        );
        body = body.replace(&format!("(push {index})"), &call);
    }
    format!(
        r#"(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (memory (export "memory") {pages})
  (data (i32.const 256) "{{\"n\":1}}")
  {data}
  (func (export "handle") (param $len i32) (result i32)
    {body}))"#
    )
}

/// Loads a module that may push to `sms.*` and to `order.close`.
fn granted(wat: &str) -> Handler {
    let push = Some(vec!["sms.*".to_owned(), "order.close".to_owned()]);
    load_with(wat, Limits::default(), Grants { push, ..Grants::default() })
}

async fn pushed(heads: &[&str], body: &str) -> TestRun {
    run(&granted(&push_module(1, heads, body)), job()).await
}

/// The result of one push with this head.
async fn answer(head: &str) -> i32 {
    pushed(&[head], "(push 0)").await.answer()
}

fn ids(ran: &TestRun) -> Vec<String> {
    ran.report.follow_ups.iter().map(|follow_up| follow_up.id.to_string()).collect()
}

#[tokio::test]
async fn a_follow_up_has_the_fields_of_its_head_and_the_body() {
    let heads = [
        "topic: sms.eu\nid: welcome/42\ndue-at-ms: 1763740800000\nttr-ms: 5000\nmax-attempts: 3\n\
         ttl-ms: 60000\npriority: low\nkey: user 42\nh.traceparent: 00-ab\n",
        "topic: order.close\ndelay-ms: 1500\n",
    ];
    let ran = pushed(&heads, "(drop (push 0)) (push 1)").await;
    assert_eq!(ran.report.outcome, Outcome::Acked);
    let payload = Bytes::from_static(b"{\"n\":1}");
    let first = FollowUp {
        topic: TopicName::new("sms.eu").unwrap(),
        id: JobId::new("welcome/42").unwrap(),
        due: FollowUpDue::AtMs(1_763_740_800_000),
        payload: payload.clone(),
        options: Options::default()
            .with_ttr(Duration::from_secs(5))
            .with_max_attempts(3)
            .with_ttl(Duration::from_secs(60))
            .with_priority(Priority::Low)
            .with_key("user 42")
            .and_then(|options| options.with_header("traceparent", "00-ab"))
            .unwrap(),
    };
    let second = FollowUp {
        topic: TopicName::new("order.close").unwrap(),
        id: JobId::new("job-42.2").unwrap(),
        due: FollowUpDue::AfterMs(1_500),
        payload,
        options: Options::default(),
    };
    assert_eq!(ran.report.follow_ups, [first, second]);
}

#[tokio::test]
async fn follow_ups_count_only_with_an_ack() {
    let head = ["topic: sms.eu\n"];
    assert_eq!(ids(&pushed(&head, "(push 0)").await), ["job-42.1"]);
    for end in ["(i32.const 1)", "(i32.const 2)", "(i32.const 7)", "(unreachable)"] {
        let ran = pushed(&head, &format!("(drop (push 0)) {end}")).await;
        assert_ne!(ran.report.outcome, Outcome::Acked);
        assert_eq!(ran.report.follow_ups, [], "{end}");
    }
    let ran = pushed(&head, "(drop (push 0)) (call $snooze (i64.const 1)) (i32.const 1)").await;
    assert!(matches!(ran.report.outcome, Outcome::Snoozed { .. }));
    assert_eq!(ran.report.follow_ups, []);
}

#[tokio::test]
async fn default_ids_count_accepted_follow_ups() {
    let heads = ["topic: sms.eu\n", "topic: sms.eu\nid: own\n", "topic: elsewhere\n", "bad\n"];
    let body = "(drop (push 2)) (drop (push 0)) (drop (push 3)) (drop (push 1)) (push 0)";
    assert_eq!(ids(&pushed(&heads, body).await), ["job-42.1", "own", "job-42.3"]);
}

#[tokio::test]
async fn an_invalid_job_id_has_no_default_for_follow_ups() {
    let handler =
        granted(&push_module(1, &["topic: sms.eu\n", "topic: sms.eu\nid: own\n"], "(push 0)"));
    let own = granted(&push_module(1, &["topic: sms.eu\nid: own\n"], "(push 0)"));
    let parent = |id: Vec<u8>| {
        let mut parent = job();
        parent.id = JobId::from_redis(id);
        parent
    };
    for (id, answered) in
        [(vec![b'x'; 254], 0), (vec![b'x'; 255], -3), (vec![0xff], -3), (b"a b".to_vec(), -3)]
    {
        assert_eq!(run(&handler, parent(id.clone())).await.answer(), answered);
        assert_eq!(ids(&run(&own, parent(id)).await), ["own"]);
    }
}

#[tokio::test]
async fn a_target_that_is_not_granted_is_denied() {
    assert_eq!(answer("topic: sms.eu\n").await, 0);
    assert_eq!(answer("topic: order.close\n").await, 0);
    for topic in ["sms", "sm", "order.close2", "order", "SMS.eu"] {
        assert_eq!(answer(&format!("topic: {topic}\n")).await, -2, "{topic}");
    }
    let wat = push_module(1, &["topic: sms.eu\n"], "(push 0)");
    let nobody = Grants { push: Some(Vec::new()), ..Grants::default() };
    let ran = run(&load_with(&wat, Limits::default(), nobody), job()).await;
    assert_eq!(ran.answer(), -2);
}

#[tokio::test]
async fn a_malformed_head_is_refused_as_a_whole() {
    for head in [
        "",
        "topic: sms.eu",
        "id: 1\n",
        "topic: sms.eu\nspeed: 1\n",
        "topic: sms.eu\ntopic: sms.eu\n",
        "topic: sms eu\n",
        "topic: sms.eu\nid: a b\n",
        "topic: sms.eu\nttr-ms: 0\n",
        "topic: sms.eu\npriority: urgent\n",
        "topic: sms.eu\ndelay-ms: -1\n",
        "topic: sms.eu\ndelay-ms: 1\ndue-at-ms: 1763740800000\n",
        "topic: sms.eu\nh.: 1\n",
        "topic: sms.eu\nh.a: \u{85}\n",
        "topic: sms.eu\r\n",
    ] {
        let ran = pushed(&[head, "topic: sms.eu\n"], "(drop (push 1)) (push 0)").await;
        assert_eq!(ran.answer(), -3, "{head:?}");
        let ran = pushed(&[head], "(drop (push 0)) (i32.const 0)").await;
        assert_eq!(ran.report.follow_ups, [], "{head:?}");
    }
}

#[tokio::test]
async fn a_hundred_follow_ups_are_accepted_and_one_more_is_refused() {
    let body = |count: u32| {
        format!(
            "(local $i i32) (local $last i32)
             (loop $next
               (local.set $last (push 0))
               (local.set $i (i32.add (local.get $i) (i32.const 1)))
               (br_if $next (i32.lt_u (local.get $i) (i32.const {count}))))
             (local.get $last)"
        )
    };
    let ran = pushed(&["topic: sms.eu\n"], &body(100)).await;
    assert_eq!((ran.answer(), ran.report.follow_ups.len()), (0, 100));
    assert_eq!(ran.report.follow_ups[99].id.to_string(), "job-42.100");
    let ran = pushed(&["topic: sms.eu\n"], &body(101)).await;
    assert_eq!(ran.answer(), -4);
}

/// A push of the first head with a body of this many bytes.
fn large(body_len: usize) -> String {
    let head = "topic: sms.eu\n".len();
    format!(
        "(call $push (i32.const {HEAD_AT}) (i32.const {head}) (i32.const 0) (i32.const {body_len}))"
    )
}

#[tokio::test]
async fn heads_and_bodies_together_are_limited_to_4_mib() {
    let all = 4 << 20;
    let head = "topic: sms.eu\n".len();
    let answered = async |calls: &str| {
        run(&granted(&push_module(65, &["topic: sms.eu\n"], calls)), job()).await
    };
    let ran = answered(&large(all - head)).await;
    assert_eq!((ran.answer(), ran.report.follow_ups[0].payload.len()), (0, all - head));
    assert_eq!(answered(&large(all - head + 1)).await.answer(), -4);
    let full = format!("(drop {}) {}", large(all - 2 * head), large(0));
    assert_eq!(answered(&full).await.answer(), 0);
    let over = format!("(drop {}) {}", large(all - 2 * head + 1), large(0));
    assert_eq!(answered(&over).await.answer(), -4);
    // A refused follow-up does not count.
    let after = format!("(drop {}) {}", large(all), large(all - head));
    assert_eq!(answered(&after).await.answer(), 0);
}

#[tokio::test]
async fn a_head_over_16_kib_is_too_large_whatever_it_contains() {
    let call = |length: u32| {
        format!(
            "(memory.fill (i32.const 1038) (i32.const 120) (i32.const 16400))
             (i64.store (i32.const 1038) (i64.const 0x203a612e68)) ;; h.a: and a space
             (i32.store8 (i32.const {}) (i32.const 10))
             (call $push (i32.const {HEAD_AT}) (i32.const {length}) (i32.const 0) (i32.const 0))",
            HEAD_AT as u32 + length - 1
        )
    };
    assert_eq!(pushed(&["topic: sms.eu\n"], &call(16_384)).await.answer(), -3);
    assert_eq!(pushed(&["topic: sms.eu\n"], &call(16_385)).await.answer(), -4);
}

#[tokio::test]
async fn both_ranges_must_be_inside_the_memory() {
    for (head, body) in [
        ((65_536, 1), (0, 0)),
        ((-1, 14), (0, 0)),
        ((1, 65_536), (0, 0)),
        ((HEAD_AT as i32, 14), (65_530, 7)),
        ((HEAD_AT as i32, 14), (0, 65_537)),
        ((HEAD_AT as i32, 14), (16, -1)),
    ] {
        let call = format!(
            "(call $push (i32.const {}) (i32.const {}) (i32.const {}) (i32.const {}))",
            head.0, head.1, body.0, body.1
        );
        let ran = pushed(&["topic: sms.eu\n"], &call).await;
        let (class, reason) = ran.class();
        assert_eq!(class, FailureClass::Trap);
        assert!(reason.starts_with("push: the range of "), "{reason}");
    }
    let ends_with_memory = format!(
        "(call $push (i32.const {HEAD_AT}) (i32.const 14) (i32.const 65530) (i32.const 6))"
    );
    assert_eq!(pushed(&["topic: sms.eu\n"], &ends_with_memory).await.answer(), 0);
    let no_body =
        format!("(call $push (i32.const {HEAD_AT}) (i32.const 14) (i32.const -1) (i32.const 0))");
    assert_eq!(pushed(&["topic: sms.eu\n"], &no_body).await.answer(), 0);
}

#[tokio::test]
async fn push_does_not_work_before_the_job() {
    for export in ["(export \"_initialize\")", ""] {
        let start = if export.is_empty() { "(start $early)" } else { "" };
        let wat = format!(
            r#"(module
              (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
              (memory (export "memory") 1)
              (data (i32.const 0) "topic: sms.eu\n")
              (func $early {export}
                (drop (call $push (i32.const 0) (i32.const 14) (i32.const 0) (i32.const 0))))
              {start}
              (func (export "handle") (param i32) (result i32) (i32.const 0)))"#
        );
        let ran = run(&granted(&wat), job()).await;
        let (class, reason) = ran.class();
        assert_eq!(class, FailureClass::Trap);
        assert!(reason.starts_with("push does not work in a start function"), "{reason}");
    }
}
