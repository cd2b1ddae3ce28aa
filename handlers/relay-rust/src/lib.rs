//! Pushes follow-ups as a conformance case asks, with the Rust SDK alone. It is separate from
//! `echo-rust` because a module that imports `push` runs only if the topic grants it. The steps are
//! in the header `script`, as for `echo-rust`; `tests/conformance/README.md` describes each.
//!
//! Invariant: `relay-go` and `relay-as` log the same text for every step.

use std::time::Duration;

use duebox_sdk::{FollowUp, Job, Priority, PushError, Verdict, info};

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Result<Verdict, Verdict> {
    for line in job.header("script").unwrap_or_default().split("; ") {
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        match step {
            "push" => match job.push(follow_up(&job, rest)?) {
                Ok(()) => info!("pushed"),
                Err(why) => info!("refused: {why}"),
            },
            "must" => job.push(follow_up(&job, rest)?)?,
            "push-many" => {
                let (count, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                push_many(&job, count.parse()?, &follow_up(&job, rest)?);
            }
            "ack" => return Ok(Verdict::Ack),
            "nack" => return Ok(Verdict::nack(rest)),
            "drop" => return Ok(Verdict::drop(rest)),
            "snooze" => return Ok(Verdict::snooze(Duration::from_millis(rest.parse()?), "")),
            "panic" => panic!("{rest}"),
            unknown => return Err(Verdict::drop(format!("unknown step {unknown:?}"))),
        }
    }
    Ok(Verdict::Ack)
}

/// Pushes the same follow-up `count` times, and logs how many were accepted and why the last one
/// was refused.
fn push_many(job: &Job, count: u32, follow_up: &FollowUp) {
    let answers: Vec<_> = (0..count).map(|_| job.push(follow_up.clone())).collect();
    let refused: Vec<PushError> = answers.iter().filter_map(|answer| answer.err()).collect();
    let why = refused.last().map_or_else(String::new, |why| format!(": {why}"));
    info!("pushed {} of {count}{why}", answers.len() - refused.len());
}

/// Parses `topic=T|name=value|…`. The value `$` stands for the payload as text.
fn follow_up(job: &Job, rest: &str) -> Result<FollowUp, Verdict> {
    let mut follow_up = FollowUp::new("");
    for pair in rest.split('|') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = if value == "$" { job.text()? } else { value.to_owned() };
        let value = value.as_str();
        follow_up = match name {
            "topic" => FollowUp::new(value),
            "payload" => follow_up.payload(value),
            "size" => follow_up.payload(vec![b'x'; value.parse()?]),
            "id" => follow_up.id(value),
            "delay" => follow_up.delay(Duration::from_millis(value.parse()?)),
            "at" => follow_up.due_at_ms(value.parse()?),
            "ttr" => follow_up.ttr(Duration::from_millis(value.parse()?)),
            "attempts" => follow_up.max_attempts(value.parse()?),
            "ttl" => follow_up.ttl(Duration::from_millis(value.parse()?)),
            "priority" => follow_up.priority(match value {
                "high" => Priority::High,
                "low" => Priority::Low,
                _ => Priority::Normal,
            }),
            "key" => follow_up.key(value),
            header => follow_up.header(header.trim_start_matches("h."), value),
        };
    }
    Ok(follow_up)
}
