//! A handler as a user writes it, run natively: it reads what the test job contains.

use std::time::Duration;

use duebox_sdk::testing::TestJob;
use duebox_sdk::{
    FollowUp, Job, Level, Priority, PushError, ResultError, ResultTooLarge, Verdict, info, warn,
};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Order {
    id: u64,
    paid: bool,
}

fn close(job: Job) -> Result<Verdict, Verdict> {
    let order: Order = job.json().map_err(Verdict::drop)?;
    let patience: u64 = job.config_as("patience_s")?.unwrap_or(60);
    if order.paid {
        info!("order {} is paid", order.id);
        return Ok(Verdict::Ack);
    }
    warn!("order {} is open in attempt {} of {}", order.id, job.attempt(), job.max_attempts());
    Ok(Verdict::retry_after(Duration::from_secs(patience), "still open"))
}

duebox_sdk::handler!(close);

#[test]
fn a_verdict_and_log_lines_come_back() {
    let run = TestJob::new(r#"{"id":7,"paid":true}"#).run(close);
    assert_eq!(run.verdict, Verdict::Ack);
    assert_eq!(run.logs, [(Level::Info, "order 7 is paid".to_owned())]);

    let run = TestJob::new(r#"{"id":7,"paid":false}"#).attempt(2).max_attempts(3).run(close);
    assert_eq!(run.verdict, Verdict::retry_after(Duration::from_secs(60), "still open"));
    assert_eq!(run.logs, [(Level::Warn, "order 7 is open in attempt 2 of 3".to_owned())]);
}

#[test]
fn a_malformed_payload_is_dropped_with_its_position() {
    let run = TestJob::new(r#"{"id":"x"}"#).run(close);
    let Verdict::Drop { reason } = run.verdict else { panic!("{:?}", run.verdict) };
    assert!(reason.contains("line 1 column"), "{reason}");
}

#[test]
fn a_bad_configuration_value_is_a_nack_that_hides_the_value() {
    let run = TestJob::new(r#"{"id":7,"paid":false}"#).config("patience_s", "hunter2").run(close);
    let Verdict::Nack { reason, .. } = run.verdict else { panic!("{:?}", run.verdict) };
    assert!(reason.contains("\"patience_s\"") && !reason.contains("hunter2"), "{reason}");
}

#[test]
fn metadata_has_the_expected_types() {
    let job = TestJob::new("0123456789")
        .id("a/1")
        .topic("order.close")
        .header("trace-id", "t: 1")
        .header("lang", "zh")
        .due_at_ms(5_000)
        .now_ms(7_000)
        .ttr(Duration::from_millis(1_500))
        .config("long", &"x".repeat(1_000))
        .config("table", r#"{"id":1,"paid":true}"#);
    let run = job.run(|job: Job| {
        assert_eq!((job.id().as_str(), job.topic().as_str()), ("a/1", "order.close"));
        assert_eq!((job.due_at_ms(), job.now_ms(), job.deadline_ms()), (5_000, 7_000, 8_500));
        assert_eq!(job.time_left(), Duration::from_millis(1_500));
        assert_eq!(job.headers().len(), 2);
        assert_eq!(job.header("trace-id").as_deref(), Some("t: 1"));
        assert_eq!(job.header("absent"), None);
        assert_eq!(job.config("long").map(|value| value.len()), Some(1_000));
        assert_eq!(job.config("absent"), None);
        assert_eq!(job.config_json::<Order>("table").unwrap().unwrap().id, 1);
        assert!(job.config_json::<Order>("long").is_err());
        let mut part = [0; 4];
        assert_eq!(job.payload_read(8, &mut part), 2);
        assert_eq!(part, *b"89\0\0");
        assert_eq!(job.payload_read(99, &mut part), 0);
        assert_eq!(job.text().unwrap(), "0123456789");
    });
    assert_eq!(run.verdict, Verdict::Ack);
}

/// Sends a message and schedules a reminder; snoozes if the line is busy.
fn welcome(job: Job) -> Result<Verdict, Verdict> {
    if job.header("busy").is_some() {
        return Ok(Verdict::snooze(Duration::from_secs(5), "the line is busy"));
    }
    let message = FollowUp::new("sms.eu").payload(job.payload()).priority(Priority::High);
    job.push(message)?;
    let reminder = FollowUp::new("remind")
        .id("remind/7")
        .json(&["welcome"])?
        .delay(Duration::from_secs(3_600))
        .ttr(Duration::from_secs(5))
        .max_attempts(3)
        .ttl(Duration::from_secs(60))
        .key("user 7")
        .header("traceparent", "00-ab");
    job.push(reminder)?;
    job.set_result("sent")?;
    Ok(Verdict::Ack)
}

#[test]
fn follow_ups_and_a_result_come_with_an_ack() {
    let run = TestJob::new("hello").run(welcome);
    assert_eq!(run.verdict, Verdict::Ack);
    let [message, reminder] = &run.follow_ups[..] else { panic!("{:?}", run.follow_ups) };
    assert_eq!(message, &FollowUp::new("sms.eu").payload("hello").priority(Priority::High));
    assert_eq!(
        (reminder.id.as_deref(), &reminder.payload[..]),
        (Some("remind/7"), &b"[\"welcome\"]"[..])
    );
    assert_eq!((reminder.max_attempts, reminder.headers.len()), (Some(3), 1));
    assert_eq!(run.result.as_deref(), Some(&b"sent"[..]));
}

#[test]
fn a_job_that_is_not_acked_pushes_and_keeps_nothing() {
    let run = TestJob::new("hello").may_push("sms.*").run(welcome);
    assert_eq!(run.verdict, Verdict::nack(PushError::Denied));
    assert_eq!((run.follow_ups, run.result), (Vec::new(), None));
    let run = TestJob::new("hello").header("busy", "1").run(welcome);
    assert_eq!(run.verdict, Verdict::snooze(Duration::from_secs(5), "the line is busy"));
    assert_eq!(
        TestJob::new("").may_push("sms.eu").may_push("remind").run(welcome).verdict,
        Verdict::Ack
    );
}

#[test]
fn the_test_host_refuses_what_the_daemon_refuses() {
    let run = TestJob::new("").run(|job: Job| {
        for bad in [
            FollowUp::new(""),
            FollowUp::new("a b"),
            FollowUp::new("a").id(""),
            FollowUp::new("a").id("a b"),
            FollowUp::new("a").key(""),
            FollowUp::new("a").max_attempts(0),
            FollowUp::new("a").ttr(Duration::ZERO),
            FollowUp::new("a").delay(Duration::MAX),
            FollowUp::new("a").due_at_ms(1_764_000_000),
            FollowUp::new("a").header("Upper", "1"),
            FollowUp::new("a").header(&"n".repeat(63), "1"),
            FollowUp::new("a").header("a", "1\nid: forged"),
        ] {
            assert_eq!(job.push(bad.clone()), Err(PushError::Invalid), "{bad:?}");
        }
        let large = FollowUp::new("a").payload(vec![0; 4 << 20]);
        assert_eq!(job.push(large), Err(PushError::TooLarge));
        for _ in 0..100 {
            assert_eq!(job.push(FollowUp::new("a")), Ok(()));
        }
        assert_eq!(job.push(FollowUp::new("a")), Err(PushError::TooLarge));
        assert_eq!(job.set_result(vec![1; 64 << 10]), Ok(()));
        assert_eq!(job.set_result(vec![2; (64 << 10) + 1]), Err(ResultTooLarge));
    });
    assert_eq!((run.follow_ups.len(), run.result.map(|kept| kept[0])), (100, Some(1)));
}

#[derive(Serialize)]
struct Receipt<'a> {
    order: u64,
    note: &'a str,
}

/// Writes the same value as a follow-up and as its result.
fn receipt(job: Job) -> Result<Verdict, Verdict> {
    let receipt = Receipt { order: 42, note: &job.text()? };
    job.push(FollowUp::new("mail").json(&receipt)?)?;
    job.set_result_json(&receipt)?;
    Ok(Verdict::Ack)
}

#[test]
fn values_are_written_as_json() {
    let run = TestJob::new("\"fine\"").run(receipt);
    let written = br#"{"order":42,"note":"\"fine\""}"#;
    assert_eq!(run.verdict, Verdict::Ack);
    assert_eq!(run.follow_ups[0].payload, written);
    assert_eq!(run.result.as_deref(), Some(&written[..]));

    let run = TestJob::new("x".repeat(64 << 10)).run(receipt);
    assert_eq!(run.verdict, Verdict::nack(ResultTooLarge));
    TestJob::new("").run(|job: Job| {
        let unwritable = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert!(matches!(job.set_result_json(&unwritable), Err(ResultError::Json(_))));
    });
}
