//! Runs the steps of a conformance case with the Rust SDK alone. The steps are in the header
//! `script`, separated by `; `; `tests/conformance/README.md` describes each.
//!
//! Invariant: `echo-go` and `echo-as` log the same text for every step.

use std::time::Duration;

use duebox_sdk::{Job, Level, Verdict, info, log, random};
use serde::Deserialize;
use serde::de::IgnoredAny;

duebox_sdk::handler!(handle);

/// The payload of the step `json`.
#[derive(Deserialize)]
struct Item {
    name: String,
    count: i64,
    price: f64,
    on: bool,
    tags: Vec<String>,
}

fn handle(job: Job) -> Result<Verdict, Verdict> {
    for line in job.header("script").unwrap_or_default().split("; ") {
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(verdict) = verdict(step, rest)? {
            return Ok(verdict);
        }
        read(&job, step, rest)?;
    }
    Ok(Verdict::Ack)
}

/// Runs the steps that end the attempt.
fn verdict(step: &str, rest: &str) -> Result<Option<Verdict>, Verdict> {
    Ok(Some(match step {
        "ack" => Verdict::Ack,
        "nack" => Verdict::nack(rest),
        "drop" => Verdict::drop(rest),
        "retry" => {
            let (ms, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            Verdict::retry_after(Duration::from_millis(ms.parse()?), reason)
        }
        "snooze" => {
            let (ms, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            Verdict::snooze(Duration::from_millis(ms.parse()?), reason)
        }
        "error" => Err(rest)?,
        "panic" => panic!("{rest}"),
        _ => return Ok(None),
    }))
}

/// Runs the steps that read something and log it.
fn read(job: &Job, step: &str, rest: &str) -> Result<(), Verdict> {
    match step {
        "payload" => info!("payload {} {}", job.payload_len(), hex(&job.payload())),
        "part" => {
            let (offset, len) = rest.split_once(' ').unwrap_or((rest, "0"));
            let mut part = vec![0; len.parse()?];
            let read = job.payload_read(offset.parse()?, &mut part);
            info!("part {read} {}", hex(&part[..read]));
        }
        "sum" => info!("sum {} {}", job.payload_len(), sum(&job.payload())),
        "text" => info!("text {}", job.text().map_err(Verdict::drop)?),
        "syntax" => info!("syntax {}", job.json::<IgnoredAny>().is_ok()),
        "json" => {
            let Item { name, count, price, on, tags } = job.json().map_err(Verdict::drop)?;
            let tags = tags.join("|");
            info!("json name={name} count={count} price={price} on={on} tags={tags}");
        }
        "meta" => info!(
            "meta id={} topic={} attempt={} max_attempts={} last={} due_at={}",
            job.id(),
            job.topic(),
            job.attempt(),
            job.max_attempts(),
            job.is_last_attempt(),
            job.due_at_ms()
        ),
        "times" => times(job),
        "headers" => {
            for (name, value) in job.headers().iter().filter(|(name, _)| *name != "script") {
                info!("header {name}={value}");
            }
        }
        "header" => show("header", rest, job.header(rest)),
        "config" => show("config", rest, job.config(rest)),
        "int" => show("int", rest, job.config_as::<i64>(rest)?),
        "float" => show("float", rest, job.config_as::<f64>(rest)?),
        "bool" => show("bool", rest, job.config_as::<bool>(rest)?),
        "result" => job.set_result(rest)?,
        "result-size" => job.set_result(vec![b'x'; rest.parse()?])?,
        "log" => written(rest)?,
        "random" => {
            let mut draws = [[0; 16]; 2];
            draws.iter_mut().for_each(|draw| random(draw));
            info!("random differs={}", draws[0] != draws[1]);
        }
        unknown => return Err(Verdict::drop(format!("unknown step {unknown:?}"))),
    }
    Ok(())
}

/// Logs how the clocks relate to each other, since their values differ from run to run.
fn times(job: &Job) {
    let (now, deadline, left) = (job.now_ms(), job.deadline_ms(), job.time_left().as_millis());
    let ordered = job.due_at_ms() <= now && now <= deadline;
    info!("times ordered={ordered} left={}", 0 < left && now + left as u64 <= deadline + 1_000);
}

fn written(rest: &str) -> Result<(), Verdict> {
    let (level, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let level = match level {
        "error" => Level::Error,
        "warn" => Level::Warn,
        "info" => Level::Info,
        "debug" => Level::Debug,
        "trace" => Level::Trace,
        unknown => return Err(Verdict::drop(format!("unknown level {unknown:?}"))),
    };
    log::line(level, text);
    Ok(())
}

fn show(step: &str, name: &str, value: Option<impl std::fmt::Display>) {
    match value {
        Some(value) => info!("{step} {name}={value}"),
        None => info!("{step} {name} absent"),
    }
}

/// A checksum that depends on every byte and on their order.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
