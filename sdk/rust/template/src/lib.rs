//! A handler that greets the name in the payload.

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
    let greeting: Greeting = job.json().map_err(Verdict::drop)?; // malformed: do not retry
    let word = job.config("greeting").unwrap_or("Hello".to_owned());
    if greeting.asleep {
        return Ok(Verdict::retry_after(Duration::from_secs(60), "asleep"));
    }
    info!("{word}, {}! (attempt {} of {})", greeting.name, job.attempt(), job.max_attempts());
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
