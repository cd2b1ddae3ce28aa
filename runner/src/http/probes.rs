//! Liveness, readiness and startup probes, and the metrics.
//!
//! Probes query Redis at most once a second, however often they are called. A response lists every
//! check, so that it shows what to repair.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{RawQuery, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use duebox_queue::Queue;
use serde::Serialize;
use tokio::sync::{Mutex, watch};

use super::exchange::FinalBody;
use super::problem::Problem;
use crate::observe::health::{Health, Phase};
use crate::report::metrics::Metrics;
use crate::report::status::AllWatched;

/// Time limit for the reply of Redis.
const REDIS_MAX: Duration = Duration::from_secs(1);
/// How long the result is reused.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Maximum number of topics without a module, or of tasks, that are named; further ones are counted.
const NAMED_MAX: usize = 5;

/// The checks of the readiness probe; the names that `exclude` accepts.
const CHECKS: [&str; 5] = ["serving", "redis", "manifest", "modules", "tasks"];

/// The sources of the probes. Clones share their state.
#[derive(Clone)]
pub(crate) struct Probes(Arc<ProbesState>);

struct ProbesState {
    metrics: Metrics,
    queue: Queue,
    health: Arc<Health>,
    watched: watch::Receiver<AllWatched>,
    redis: Mutex<Option<(Instant, Result<(), String>)>>,
}

/// Set on a request that may not see the metrics and the details of the probes, with the reason.
#[derive(Debug, Clone)]
pub(super) struct Withheld(pub(super) Problem);

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    /// What is wrong, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    /// True if the check was excluded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    excluded: bool,
}

/// The results of all checks.
#[derive(Debug, Serialize)]
struct ProbeReport {
    ok: bool,
    checks: Vec<Check>,
}

impl Probes {
    /// Probes of this process. The connection must not be the one that serves jobs.
    pub(crate) fn new(
        metrics: Metrics,
        queue: Queue,
        health: Arc<Health>,
        watched: watch::Receiver<AllWatched>,
    ) -> Self {
        Self(Arc::new(ProbesState { metrics, queue, health, watched, redis: Mutex::new(None) }))
    }

    /// `/livez`, `/readyz`, `/startupz` and `/metrics`.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/livez", get(live))
            .route("/readyz", get(ready))
            .route("/startupz", get(started))
            .route("/metrics", get(scrape))
            .with_state(self)
    }

    async fn redis(&self) -> Check {
        let mut last = self.0.redis.lock().await;
        let known = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH_FOR);
        let result = match known {
            Some((_, result)) => result.clone(),
            None => {
                let asked = tokio::time::timeout(REDIS_MAX, self.0.queue.now_ms()).await;
                let result = match asked {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err(format!("no reply within {} s", REDIS_MAX.as_secs())),
                };
                *last = Some((Instant::now(), result.clone()));
                result
            }
        };
        Check::of("redis", result)
    }

    fn modules(&self) -> Check {
        let watched = self.0.watched.borrow();
        let waiting: Vec<&str> = watched
            .iter()
            .filter(|watched| watched.serving.is_none())
            .map(|watched| watched.topic.as_str())
            .collect();
        if waiting.is_empty() {
            return Check::of("modules", Ok(()));
        }
        let named = first_of(&waiting);
        Check::of("modules", Err(format!("no valid module for {named}; see duebox check")))
    }

    fn tasks(&self) -> Check {
        let down = self.0.health.supervision().down();
        if down.is_empty() {
            return Check::of("tasks", Ok(()));
        }
        Check::of("tasks", Err(format!("{}; see the log", first_of(&down))))
    }

    fn manifest(&self) -> Check {
        let trouble = self.0.health.manifest_trouble();
        let first = trouble.map(|trouble| {
            let line = trouble.lines().next().unwrap_or_default().to_owned();
            format!(
                "the file is refused, the previous manifest is in use: {line}; see duebox check"
            )
        });
        Check::of("manifest", first.map_or(Ok(()), Err))
    }

    fn serving(&self) -> Check {
        Check::of(
            "serving",
            match self.0.health.phase() {
                Phase::Starting => Err("the daemon is starting".to_owned()),
                Phase::Serving => Ok(()),
                Phase::Draining => Err("the daemon is draining".to_owned()),
            },
        )
    }
}

/// The first of some names, and how many more there are.
fn first_of(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED_MAX).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMED_MAX) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

impl Check {
    fn of(name: &'static str, result: Result<(), String>) -> Self {
        let ok = result.is_ok();
        Self { name, ok, detail: result.err().unwrap_or_default(), excluded: false }
    }
}

impl ProbeReport {
    fn of(mut checks: Vec<Check>, excluded: &[&'static str]) -> Self {
        for check in &mut checks {
            check.excluded = excluded.contains(&check.name);
        }
        Self { ok: checks.iter().all(|check| check.ok || check.excluded), checks }
    }

    /// The report without its details, which name topics, files and servers.
    fn without_details(mut self) -> Self {
        self.checks.iter_mut().for_each(|check| check.detail.clear());
        self
    }

    fn response(self, headers: &HeaderMap, withheld: Option<&Withheld>) -> Response {
        let report = if withheld.is_some() { self.without_details() } else { self };
        report.written(headers)
    }

    fn written(&self, headers: &HeaderMap) -> Response {
        let status = if self.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let (kind, text) = if accept.is_some_and(|accept| accept.contains("application/json")) {
            // Texts only: serialization to JSON cannot fail.
            ("application/json", serde_json::to_string(self).unwrap_or_default())
        } else {
            ("text/plain; charset=utf-8", self.text())
        };
        let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
        (status, headers, Extension(FinalBody), text).into_response()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Check { name, ok, detail, excluded } in &self.checks {
            let word = match (ok, excluded) {
                (true, _) => "ok",
                (false, true) => "excluded",
                (false, false) => "failed",
            };
            let mark = if *ok || *excluded { '+' } else { '-' };
            let colon = if detail.is_empty() { "" } else { ": " };
            text.push_str(&format!("[{mark}] {name} {word}{colon}{detail}\n"));
        }
        text.push_str(if self.ok { "ok\n" } else { "failed\n" });
        text
    }
}

async fn live(
    State(probes): State<Probes>,
    withheld: Option<Extension<Withheld>>,
    headers: HeaderMap,
) -> Response {
    let silence = probes.0.health.silence();
    let result = match probes.0.health.is_alive() {
        true => Ok(()),
        false => Err(format!("no progress for {} s", silence.as_secs())),
    };
    ProbeReport::of(vec![Check::of("control threads", result)], &[])
        .response(&headers, withheld.as_deref())
}

async fn started(
    State(probes): State<Probes>,
    withheld: Option<Extension<Withheld>>,
    headers: HeaderMap,
) -> Response {
    let result = match probes.0.health.phase() {
        Phase::Starting => Err("the daemon is starting".to_owned()),
        Phase::Serving | Phase::Draining => Ok(()),
    };
    ProbeReport::of(vec![Check::of("started", result)], &[]).response(&headers, withheld.as_deref())
}

async fn ready(
    State(probes): State<Probes>,
    RawQuery(query): RawQuery,
    withheld: Option<Extension<Withheld>>,
    headers: HeaderMap,
) -> Response {
    let excluded = match excluded(query.as_deref().unwrap_or_default()) {
        Ok(excluded) => excluded,
        Err(refusal) => {
            return (StatusCode::BAD_REQUEST, Extension(FinalBody), refusal).into_response();
        }
    };
    let redis = probes.redis().await;
    let checks = vec![probes.serving(), redis, probes.manifest(), probes.modules(), probes.tasks()];
    ProbeReport::of(checks, &excluded).response(&headers, withheld.as_deref())
}

/// The excluded checks: `exclude=manifest&exclude=modules`.
fn excluded(query: &str) -> Result<Vec<&'static str>, String> {
    let known = CHECKS.join(", ");
    let mut excluded = Vec::new();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        if key != "exclude" {
            return Err(format!("{key:?} is not a parameter of a probe; write exclude=CHECK\n"));
        }
        let check = CHECKS.into_iter().find(|check| *check == value);
        excluded.push(check.ok_or(format!("{value:?} is not a check; the checks are {known}\n"))?);
    }
    Ok(excluded)
}

async fn scrape(
    State(probes): State<Probes>,
    withheld: Option<Extension<Withheld>>,
    headers: HeaderMap,
) -> Response {
    if let Some(Extension(Withheld(problem))) = withheld {
        return problem.into_response();
    }
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let page = probes.0.metrics.scrape(accept.unwrap_or_default()).await;
    let headers = [(CONTENT_TYPE, page.content_type), (CACHE_CONTROL, "no-store")];
    (headers, page.text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_failed_and_excluded_checks() {
        let failed = || Check::of("redis", Err("no reply within 1 s".to_owned()));
        let checks = vec![Check::of("serving", Ok(())), failed()];
        let report = ProbeReport::of(checks.clone(), &[]);
        assert!(!report.ok);
        assert_eq!(
            report.text(),
            "[+] serving ok\n[-] redis failed: no reply within 1 s\nfailed\n"
        );
        let report = ProbeReport::of(checks, &["redis"]);
        assert!(report.ok && report.text().contains("[+] redis excluded: no reply"));
        let mut closed = ProbeReport::of(vec![failed()], &[]).without_details();
        assert_eq!(closed.text(), "[-] redis failed\nfailed\n");
        closed.checks[0].excluded = true;
        assert!(closed.text().starts_with("[+] redis excluded\n"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["checks"][1]["excluded"], true);
        assert_eq!(json["checks"][0], serde_json::json!({"name": "serving", "ok": true}));
    }

    #[test]
    fn only_known_checks_can_be_excluded() {
        assert_eq!(excluded("").unwrap(), Vec::<&str>::new());
        assert_eq!(excluded("exclude=manifest&exclude=modules").unwrap(), ["manifest", "modules"]);
        assert!(excluded("exclude=all").unwrap_err().contains("serving, redis"));
        assert!(excluded("verbose").is_err());
    }
}
