//! The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.

use std::time::Duration;

use duebox_sdk::{Job, Verdict, info};
use serde::Deserialize;

#[derive(Deserialize)]
struct Greeting {
    name: String,
    #[serde(default)]
    asleep: bool,
}

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Result<Verdict, Verdict> {
    // No retry can help with a malformed payload, so the job is dead at once, with the reason.
    let greeting: Greeting = job.json().map_err(Verdict::drop)?;
    let word = job.config("greeting").unwrap_or("Hello".to_owned());
    // It may help to try again, here after a minute. A panic is tried again too, after the backoff.
    if greeting.asleep {
        return Ok(Verdict::retry_after(Duration::from_secs(60), "asleep"));
    }
    let text = format!("{word}, {}!", greeting.name);
    info!("{text} (attempt {} of {})", job.attempt(), job.max_attempts());
    job.set_result(&text)?;
    Ok(Verdict::Ack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_sdk::testing::TestJob;

    #[test]
    fn it_greets() {
        let run = TestJob::new(r#"{"name":"Ada"}"#).config("greeting", "Moin").run(handle);
        assert_eq!(run.verdict, Verdict::Ack);
        assert_eq!(run.logs[0].1, "Moin, Ada! (attempt 1 of 8)");
    }
}
