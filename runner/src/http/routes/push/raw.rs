//! A job whose payload is the raw body and whose options are headers: `Duebox-In: 30m`. An unknown
//! header with the prefix `Duebox-` is refused by name.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use duebox_job::{ATTEMPTS_MAX, CRASHES_MAX, JobId, Options, SNOOZES_MAX, parse_duration};
use duebox_queue::NewJob;

use crate::http::problem::Problem;
use crate::service::due::due;
use crate::service::value;
use crate::service::written_job::{TopicDefaults, payload_too_long};

const PREFIX: &str = "duebox-";
const OF_HANDLER: &str = "header-";

/// The job of a body and its headers.
pub(super) fn job(
    headers: &HeaderMap,
    payload: Bytes,
    defaults: TopicDefaults,
    id: Option<&JobId>,
) -> Result<NewJob, Problem> {
    if payload.len() > defaults.payload_max {
        let remedy = "send a shorter body, or raise `payload` in the topic's sandbox";
        return Err(Problem::bad(payload_too_long(defaults.payload_max), remedy).of("body"));
    }
    let mut options_sent = HeaderOptions { id: id.cloned(), ..HeaderOptions::default() };
    for (name, value) in headers {
        if let Some(name) = name.as_str().strip_prefix(PREFIX) {
            options_sent.set(name, text(name, value)?).map_err(|why| bad(name, why))?;
        }
    }
    if options_sent.delay.is_some() && options_sent.at.is_some() {
        return Err(bad("at", "Duebox-In is also given; keep one"));
    }
    let due = due(options_sent.delay, options_sent.at.as_deref(), defaults.delay)
        .map_err(|why| Problem::from(why).of("Duebox-At"))?;
    Ok(NewJob {
        id: options_sent.id.unwrap_or_else(JobId::generate),
        due,
        payload,
        options: options_sent.options,
    })
}

/// The job settings in the headers.
#[derive(Default)]
struct HeaderOptions {
    id: Option<JobId>,
    delay: Option<std::time::Duration>,
    at: Option<String>,
    options: Options,
}

impl HeaderOptions {
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let duration = || parse_duration(text).map_err(|error| error.to_string());
        let options = std::mem::take(&mut self.options);
        self.options = match name {
            "id" => {
                self.id = Some(value::id(text)?);
                options
            }
            "in" => {
                self.delay = Some(duration()?);
                options
            }
            "at" => {
                self.at = Some(text.to_owned());
                options
            }
            "ttr" => options.with_ttr(value::ttr(text)?),
            "ttl" => options.with_ttl(duration()?),
            "max-attempts" => options.with_max_attempts(count(text, 1, ATTEMPTS_MAX)?),
            "max-snoozes" => options.with_max_snoozes(count(text, 0, SNOOZES_MAX)?),
            "max-crashes" => options.with_max_crashes(count(text, 1, CRASHES_MAX)?),
            "backoff" => options.with_backoff(&value::backoff(text)?),
            "priority" => options.with_priority(value::priority(text)?),
            "key" => options.with_key(text).map_err(|error| error.to_string())?,
            name => match name.strip_prefix(OF_HANDLER) {
                Some(name) => options.with_header(name, text).map_err(|error| error.to_string())?,
                None => return Err("unknown header".to_owned()),
            },
        };
        Ok(())
    }
}

fn count(text: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from {least} to {most}"))
}

fn text<'v>(name: &str, value: &'v HeaderValue) -> Result<&'v str, Problem> {
    value.to_str().map_err(|_| bad(name, "it has characters other than visible ASCII and spaces"))
}

fn bad(name: &str, why: impl std::fmt::Display) -> Problem {
    // Capitalized as in the documentation.
    let name = HeaderName::try_from(format!("{PREFIX}{name}"))
        .map_or_else(|_| PREFIX.to_owned(), |name| title_case(name.as_str()));
    let remedy = "see the headers of POST /v1/topics/{topic}/jobs in /openapi.json";
    Problem::bad(format!("{name}: {why}"), remedy).of(name)
}

fn title_case(name: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        letters.next().map_or_else(String::new, |first| {
            first.to_ascii_uppercase().to_string() + letters.as_str()
        })
    };
    name.split('-').map(capital).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duebox_queue::Due;

    use super::*;

    const DEFAULTS: TopicDefaults = TopicDefaults { delay: Duration::ZERO, payload_max: 10 };

    fn job_of(pairs: &[(&'static str, &'static str)]) -> Result<NewJob, Problem> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        job(&headers, Bytes::from_static(b"\xff"), DEFAULTS, None)
    }

    #[test]
    fn options_are_read_from_headers() {
        let job = job_of(&[
            ("duebox-id", "42"),
            ("duebox-in", "30m"),
            ("duebox-ttr", "5s"),
            ("duebox-max-attempts", "3"),
            ("duebox-backoff", "1s,2s"),
            ("duebox-priority", "high"),
            ("duebox-key", "user 7"),
            ("duebox-header-traceparent", "00-ab"),
            ("content-type", "application/octet-stream"),
        ])
        .unwrap();
        assert_eq!(
            (job.id, job.due),
            (JobId::new("42").unwrap(), Due::In(Duration::from_secs(1_800)))
        );
        assert_eq!((job.options.max_attempts(), job.options.key()), (Some(3), Some("user 7")));
        assert_eq!(job.options.headers()["traceparent"], "00-ab");
        assert_eq!(job.payload, &b"\xff"[..]);
    }

    #[test]
    fn unknown_and_invalid_options_are_refused_by_name() {
        for (options_sent, name) in [
            (("duebox-speed", "1"), "Duebox-Speed"),
            (("duebox-in", "soon"), "Duebox-In"),
            (("duebox-at", "soon"), "Duebox-At"),
            (("duebox-max-attempts", "0"), "Duebox-Max-Attempts"),
            (("duebox-id", ""), "Duebox-Id"),
        ] {
            let problem = job_of(&[options_sent]).unwrap_err();
            assert!(
                format!("{problem:?}").contains(&format!("field: Some(\"{name}\")")),
                "{problem:?}"
            );
        }
        assert!(job_of(&[("duebox-in", "1s"), ("duebox-at", "1")]).is_err());
    }
}
