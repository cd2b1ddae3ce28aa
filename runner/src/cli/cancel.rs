//! `duebox cancel`: remove a job before it runs.

use std::process::ExitCode;

use duebox_queue::Cancelled;
use serde_json::json;

use super::support::failure::{FAILED, Failure};
use super::support::{output, target};
use super::{CancelArgs, Common};

pub(super) fn cancel(common: &Common, args: &CancelArgs) -> Result<ExitCode, Failure> {
    let manifest = common.load()?;
    let CancelArgs { topic, id, json } = args;
    let (cancelled, found) = target::block_on(async {
        let queue = target::connect(&manifest).await?;
        let cancelled = queue.cancel(topic, id).await?;
        let found = match cancelled {
            Cancelled::None => queue.get(topic, id).await?,
            _ => None,
        };
        if found.is_none() && cancelled == Cancelled::None {
            target::known_topic(&manifest, &queue, topic).await?;
        }
        Ok((cancelled, found))
    })?;
    let word = cancelled.word();
    if *json {
        output::print_json(
            &json!({"topic": topic.as_str(), "id": id.to_string(), "result": word}),
        )?;
    } else {
        output::print(&match cancelled {
            Cancelled::Leased => {
                format!("{word} {id} in {topic}: it is running, and will not be retried")
            }
            _ => format!("{word} {id} in {topic}"),
        })?;
    }
    match cancelled {
        Cancelled::None if *json => Ok(ExitCode::from(FAILED)),
        Cancelled::None => Err(target::does_not_wait(topic, id, found.as_ref())),
        _ => Ok(ExitCode::SUCCESS),
    }
}
