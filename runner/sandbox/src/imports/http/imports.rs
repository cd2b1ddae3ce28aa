//! The imports `http_send` and `http_read`. While a request is on its way the guest sleeps and holds no
//! thread; of what came back it copies what it wants.

use std::sync::Arc;

use wasmtime::{Caller, Linker};

use super::error::HttpError;
use super::marks::{self, Trace};
use super::request::Request;
use super::response::Response;
use crate::imports::abi::{NAMESPACE, NOT_FOUND, copy};
use crate::imports::call::{Fault, View, job_view};
use crate::imports::services::World;
use crate::imports::spans::Target;
use crate::instance::guest::Guest;
use crate::limits::Grants;
use crate::memory_budget::Share;

/// The imports there are, and whether each takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 2] = [(SEND, true), (READ, true)];

/// How their names begin.
pub(crate) const PREFIX: &str = "http_";

const SEND: &str = "http_send";
const READ: &str = "http_read";

/// What a job has of the network: the trace of its requests, and what came of the last one.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    trace: Option<Trace>,
    /// The response, or why there is none.
    last: Option<Result<Response, String>>,
}

impl Exchanges {
    /// Keeps what came of a request, and answers what the guest is told: the status, or an error.
    fn keep(&mut self, answer: Result<Response, HttpError>) -> i32 {
        let code = match &answer {
            Ok(response) => response.status.into(),
            Err(error) => error.code(),
        };
        self.last = Some(answer.map_err(|error| error.to_string()));
        code
    }

    /// One part of what came of the last request, empty where that has none; `None` if no part has this
    /// number.
    fn part(&self, number: u32) -> Option<&[u8]> {
        Some(match (number, &self.last) {
            (0, Some(Ok(response))) => response.head.as_bytes(),
            (1, Some(Ok(response))) => &response.body,
            (2, Some(Err(text))) => text.as_bytes(),
            (0..=2, _) => &[],
            _ => return None,
        })
    }
}

/// Links both.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(NAMESPACE, SEND, |mut caller: Caller<'_, Guest>, call: Call| {
        Box::new(async move {
            let request = prepare(&mut caller, call)?;
            let answer = match request {
                Ok((request, held, call)) => {
                    let guest = caller.data();
                    let (grants, world) = (Arc::clone(&guest.grants), Arc::clone(&guest.world));
                    let answer = send(&grants, &world, request, held).await;
                    note(caller.data_mut(), call, &answer);
                    answer
                }
                Err(error) => Err(error),
            };
            wasmtime::Result::Ok(caller.data_mut().exchanges.keep(answer))
        })
    })?;
    linker.func_wrap(NAMESPACE, READ, read)?;
    Ok(())
}

/// Head and body, each with pointer and length, and the time in milliseconds.
type Call = (u32, u32, u32, u32, u32);

/// A request that may be sent, what it holds of the memory of all guests, and its number in the trace.
type Prepared = (Request, Share, Option<usize>);

/// Checks a call and takes the request out of the guest's memory. What came of the one before is let go.
fn prepare(
    caller: &mut Caller<'_, Guest>,
    (hp, hl, bp, bl, timeout_ms): Call,
) -> Result<Result<Prepared, HttpError>, Fault> {
    let view = job_view(caller, SEND)?;
    let (head, body) = (view.read(hp, hl)?, view.read(bp, bl)?);
    let request = Request::read(head, timeout_ms);
    let mut held = view.guest.meter.share();
    let copied = request.and_then(|request| {
        held.grow(body.len()).map_err(HttpError::of_memory)?;
        Ok(request.with_body(body))
    });
    let guest = view.guest;
    guest.exchanges.last = None;
    Ok(copied.map(|mut request| {
        let call = match guest.traced {
            Some(_) => guest.begins(target(&request)),
            None => None,
        };
        let Guest { exchanges, invocation, traced, .. } = guest;
        let own = traced
            .as_ref()
            .zip(call)
            .and_then(|(traced, call)| Some((&traced.span, traced.calls.get(call)?.id)));
        marks::add(&mut request.headers, invocation, &mut exchanges.trace, own);
        (request, held, call)
    }))
}

/// Where a request goes, as a trace tells it: without path and query, which may hold secrets.
fn target(request: &Request) -> Target {
    Target::Http {
        method: request.method.to_string(),
        host: request.url.host_str().unwrap_or_default().to_owned(),
        port: request.url.port(),
        status: None,
    }
}

/// Notes what came of a request.
fn note(guest: &mut Guest, call: Option<usize>, answer: &Result<Response, HttpError>) {
    let failed = || match answer {
        Ok(response) if response.status >= 500 => Some(format!("status {}", response.status)),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    if let (Some(Target::Http { status, .. }), Ok(response)) = (guest.ended(call, failed), answer) {
        *status = Some(response.status);
    }
}

async fn send(
    grants: &Grants,
    world: &World,
    request: Request,
    held: Share,
) -> Result<Response, HttpError> {
    // A module that imports this is not loaded without a grant.
    let Some(grant) = &grants.http else {
        return Err(HttpError::Denied("nothing of the network is granted".to_owned()));
    };
    match &world.http {
        Some(client) => client.send(grant, request, held).await,
        None => {
            grant.check(&request.url)?;
            let text = "this run has no network: it is a trial, nothing that it does has an effect";
            Err(HttpError::Unavailable(text.to_owned()))
        }
    }
}

fn read(
    mut caller: Caller<'_, Guest>,
    part: u32,
    dst: u32,
    off: u32,
    len: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, READ)?;
    let target = view.range(dst, len)?;
    let View { bytes, guest, .. } = view;
    Ok(match guest.exchanges.part(part) {
        Some(part) => {
            let rest = part.get(off as usize..).unwrap_or_default();
            copy(&guest.traffic, &mut bytes[target], rest)
        }
        None => NOT_FOUND,
    })
}
