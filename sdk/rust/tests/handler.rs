//! A handler as a user writes it, run natively: what it reads is what the job holds.

use std::time::Duration;

use duebox_sdk::testing::TestJob;
use duebox_sdk::{Job, Level, Verdict, info, warn};
use serde::Deserialize;

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
fn a_malformed_payload_is_dropped_with_its_place() {
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
fn metadata_reads_as_types() {
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
