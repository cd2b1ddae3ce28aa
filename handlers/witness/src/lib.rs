//! Reports each run to the server of `./dev faults`, and does what the server answers: lines of
//! `push TOPIC ID`, then `ack`, `nack` or `drop`.
//!
//! Invariants: a run counts once in the store, under `runs`, before it is reported. The report
//! carries the new count, or `unknown` if the store could not be reached.

use duebox_sdk::http::Request;
use duebox_sdk::{FollowUp, Job, Verdict, kv};

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Result<Verdict, Verdict> {
    let url = job.config("url").ok_or_else(|| Verdict::drop("config.url is missing"))?;
    let count = kv::add("runs", 1).map_or_else(|_| "unknown".to_owned(), |sum| sum.to_string());
    let report = Request::post(&url)
        .header("run-topic", &job.topic())
        .header("run-id", &job.id())
        .header("run-attempt", &job.attempt().to_string())
        .header("run-by", &job.config("by").unwrap_or_default())
        .header("run-count", &count);
    let answer = report.send()?;
    let text = answer.text().map_err(|_| Verdict::drop("the answer is not text"))?;
    for line in text.lines() {
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        match step {
            "push" => {
                let (topic, id) = rest.split_once(' ').unwrap_or((rest, ""));
                job.push(FollowUp::new(topic).id(id))?;
            }
            "ack" => return Ok(Verdict::Ack),
            "nack" => return Ok(Verdict::nack("as the server answered")),
            "drop" => return Ok(Verdict::drop("as the server answered")),
            unknown => return Err(Verdict::drop(format!("unknown step {unknown:?}"))),
        }
    }
    Ok(Verdict::Ack)
}
