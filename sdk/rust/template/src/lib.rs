//! The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
//! names one, and keeps it as the job's result.

use duebox_sdk::{Job, Verdict, http, info};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Greeting {
    name: String,
}

#[derive(Serialize)]
struct Message<'a> {
    text: &'a str,
}

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Result<Verdict, Verdict> {
    // No retry can help with a malformed payload, so the job is dead at once, with the reason.
    let greeting: Greeting = job.json().map_err(Verdict::drop)?;
    let word = job.config("greeting").unwrap_or("Hello".to_owned());
    let text = format!("{word}, {}!", greeting.name);
    if let Some(api) = job.config("api") {
        // An API that cannot be reached is a nack: `?` makes one of any error, and so does a panic.
        let response = http::Request::post(&api).json(&Message { text: &text })?.send()?;
        // Busy (429, 5xx) is a nack until its Retry-After, refused (another 4xx) a drop.
        if !response.is_success() {
            return Ok(response.verdict());
        }
    }
    info!("{text} (attempt {} of {})", job.attempt(), job.max_attempts());
    job.set_result(&text)?;
    Ok(Verdict::Ack)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use duebox_sdk::testing::TestJob;

    #[test]
    fn it_greets() {
        let run = TestJob::new(r#"{"name":"Ada"}"#).config("greeting", "Moin").run(handle);
        assert_eq!(run.verdict, Verdict::Ack);
        assert_eq!(run.logs[0].1, "Moin, Ada! (attempt 1 of 8)");
    }

    #[test]
    fn an_api_that_is_busy_is_asked_again_when_it_says_so() {
        let busy = |_: &http::Request| Ok(http::Response::new(503).with_header("retry-after", "7"));
        let job = TestJob::new(r#"{"name":"Ada"}"#)
            .config("api", "https://api.example.com/")
            .server(busy);
        let run = job.run(handle);
        let late = Verdict::retry_after(Duration::from_secs(7), "the server answered 503");
        assert_eq!(run.verdict, late);
        assert_eq!(run.requests[0].body_bytes(), br#"{"text":"Hello, Ada!"}"#);
    }
}
