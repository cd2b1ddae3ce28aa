//! Requests to the hosts that the topic grants (`sandbox.http`).
//!
//! ```
//! use std::time::Duration;
//! use duebox_sdk::{Job, Verdict, http};
//!
//! fn handle(job: Job) -> Result<Verdict, Verdict> {
//!     let response = http::Request::post("https://api.shop.example/orders/42/close")
//!         .header("authorization", &format!("Bearer {}", job.config("token").unwrap_or_default()))
//!         .body(job.payload())
//!         .timeout(Duration::from_secs(5))
//!         .send()?;
//!     Ok(response.verdict())
//! }
//! # use duebox_sdk::testing::TestJob;
//! # let shop = |_: &http::Request| Ok(http::Response::new(503).with_header("retry-after", "7"));
//! # let late = Verdict::retry_after(Duration::from_secs(7), "the server answered 503");
//! # assert_eq!(TestJob::new("{}").server(shop).run(handle).verdict, late);
//! ```
//!
//! The host adds headers to every request: `Idempotency-Key: TOPIC/ID`, which is the same in every
//! attempt of the job, `Duebox-Attempt`, `traceparent` and `User-Agent`. A handler may set its own,
//! except for `Duebox-Attempt`. A job that writes more than once to one server should give each
//! write its own key with `.header("idempotency-key", …)`. Redirects are followed only after
//! [`Request::follow`].

mod error;
mod redirect;
mod request;
mod response;

pub use error::Error;
pub use request::Request;
pub use response::Response;
