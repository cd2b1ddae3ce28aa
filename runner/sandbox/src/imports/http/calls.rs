//! The imports `http_send` and `http_read`. While a request is in progress the guest sleeps and occupies no
//! thread. The guest then copies the parts of the response that it wants.

use std::sync::Arc;

use wasmtime::{Caller, Linker};

use super::client::{HttpClient, check_grant};
use super::error::HttpError;
use super::job_headers;
use super::request::Request;
use super::response::Response;
use crate::grants::{Grants, HttpGrant};
use crate::imports::abi::{NAMESPACE, NOT_FOUND, TOO_LARGE, copied};
use crate::imports::call::{View, job_view};
use crate::imports::fault::Fault;
use crate::imports::intercept::{
    HostAnswer, HostRequest, HttpFailure, HttpResponse, MaybeInterceptor,
};
use crate::imports::job::HasJob;
use crate::imports::pieces;
use crate::imports::spans::{CallIndex, CallTarget, HasSpans};
use crate::imports::trace_context::TraceContext;
use crate::memory_budget::{BudgetExhausted, MemoryReservation};

/// The imports, and whether each takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 2] = [(SEND, true), (READ, true)];

/// The prefix of their names.
pub(crate) const PREFIX: &str = "http_";

const SEND: &str = "http_send";
const READ: &str = "http_read";

/// The longest body, in bytes, of a request that the memory budget refuses and that an interceptor sees whole.
const REFUSED_BODY_MAX: usize = 256 << 10;

/// The state of a guest that sends requests.
pub(crate) trait HasHttp: HasJob + HasSpans {
    fn http(&self) -> &HttpState;
    fn http_mut(&mut self) -> &mut HttpState;
    /// The client, if this run has a network.
    fn http_client(&self) -> Option<&HttpClient>;
    /// An empty reservation of the memory budget.
    fn reserve_memory(&self) -> MemoryReservation;
}

/// The requests of one job.
#[derive(Debug, Default)]
pub(crate) struct HttpState {
    trace: Option<TraceContext>,
    /// The last response, or the text of the error.
    last: Option<Result<Response, String>>,
}

impl HttpState {
    /// Keeps the result of a request. Returns what the guest receives: the status, or an error code.
    fn keep(&mut self, result: Result<Response, HttpError>) -> i32 {
        let code = match &result {
            Ok(response) => response.status.into(),
            Err(error) => error.code(),
        };
        self.last = Some(result.map_err(|error| error.to_string()));
        code
    }

    /// One part of the last result: 0 is the head, 1 the body and 2 the text of the error. A part that does
    /// not exist is empty. `None` for any other number.
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

/// Pointer and length of head and body, and the time limit in milliseconds.
type Arguments = (u32, u32, u32, u32, u32);

/// A request that can be sent.
struct Prepared {
    request: Request,
    grants: Arc<Grants>,
    client: Option<HttpClient>,
    /// What the body holds of the memory budget, or why it may not hold it.
    memory: Result<MemoryReservation, BudgetExhausted>,
    interceptor: MaybeInterceptor,
    /// The call in the attempt's trace.
    call: Option<CallIndex>,
}

/// Links both imports.
pub(crate) fn link<T: HasHttp>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        NAMESPACE,
        SEND,
        |mut caller: Caller<'_, T>, arguments: Arguments| {
            Box::new(async move {
                let result = match prepare(&mut caller, arguments).await? {
                    Ok(prepared) => {
                        let call = prepared.call;
                        let result = prepared.send().await?;
                        record(caller.data_mut(), call, &result);
                        result
                    }
                    Err(error) => Err(error),
                };
                wasmtime::Result::Ok(caller.data_mut().http_mut().keep(result))
            })
        },
    )?;
    linker.func_wrap_async(NAMESPACE, READ, |caller, (part, dst, off, len)| {
        Box::new(read::<T>(caller, part, (dst, off, len)))
    })?;
    Ok(())
}

/// Checks a call and copies the request out of the guest's memory. Drops the previous response.
async fn prepare<T: HasHttp>(
    caller: &mut Caller<'_, T>,
    (hp, hl, bp, bl, timeout_ms): Arguments,
) -> Result<Result<Prepared, HttpError>, Fault> {
    let view = job_view(caller, SEND)?;
    let (head, body) = (view.read(hp, hl)?, view.read(bp, bl)?);
    let mut memory = view.guest.reserve_memory();
    let request = match Request::parse(head, timeout_ms) {
        Ok(request) => {
            let reserved = memory.grow(body.len()).map(|()| memory);
            // A request that the budget refuses is recorded whole.
            let is_seen = view.guest.interceptor().is_some() && body.len() <= REFUSED_BODY_MAX;
            let body = if reserved.is_ok() || is_seen { body } else { &[] };
            Ok((request.with_body(pieces::copied(body).await.into()), reserved))
        }
        Err(error) => Err(error),
    };
    let guest = view.guest;
    guest.http_mut().last = None;
    Ok(request.map(|(request, memory)| prepare_for_job(guest, request, memory)))
}

/// Adds the headers of the job, and records the call.
fn prepare_for_job<T: HasHttp>(
    guest: &mut T,
    mut request: Request,
    memory: Result<MemoryReservation, BudgetExhausted>,
) -> Prepared {
    let call = guest.spans_mut().begin(|| target(&request));
    let mut trace = guest.http_mut().trace.take();
    let recorded = guest.spans().context(call);
    job_headers::add(&mut request.headers, &guest.job().invocation, &mut trace, recorded);
    guest.http_mut().trace = trace;
    let (grants, client) = (Arc::clone(guest.grants()), guest.http_client().cloned());
    let interceptor = guest.interceptor().cloned();
    Prepared { request, grants, client, memory, interceptor, call }
}

impl Prepared {
    /// The result of the request. An error of the outer result ends the guest.
    async fn send(self) -> Result<Result<Response, HttpError>, Fault> {
        let Self { request, grants, client, memory, interceptor, .. } = self;
        // A module that imports `http_send` is not loaded without a grant; an interpreter always imports it.
        let Some(grant) = grants.http.as_ref() else { return Ok(Err(HttpError::NoGrant)) };
        let Some(interceptor) = interceptor else {
            return Ok(send(client, grant, request, memory).await);
        };
        if let Err(error) = check_grant(grant, &request.url) {
            return Ok(Err(error));
        }
        let (method, url) = (request.method.clone(), request.url.clone());
        let body = request.body.clone();
        let seen = HostRequest::Http { method: method.as_str(), url: url.as_str(), body: &body };
        match interceptor.answer(&seen) {
            Some(HostAnswer::Http(answer)) => {
                let memory = memory.map_err(HttpError::from);
                return Ok(memory.and_then(|memory| intercepted(answer, grant, memory)));
            }
            Some(HostAnswer::Stop(reason)) => return Err(Fault::NoAnswer(reason)),
            Some(_) | None => {}
        }
        let result = send(client, grant, request, memory).await;
        interceptor.answered(&seen, &answer_of(&result));
        Ok(result)
    }
}

async fn send(
    client: Option<HttpClient>,
    grant: &HttpGrant,
    request: Request,
    memory: Result<MemoryReservation, BudgetExhausted>,
) -> Result<Response, HttpError> {
    let memory = memory?;
    match client {
        Some(client) => client.send(grant, request, memory).await,
        None => {
            check_grant(grant, &request.url)?;
            Err(HttpError::NoClient)
        }
    }
}

/// The answer of an interceptor as a result, within the limits of the grant and of the memory.
fn intercepted(
    answer: Result<HttpResponse, HttpFailure>,
    grant: &HttpGrant,
    request_memory: MemoryReservation,
) -> Result<Response, HttpError> {
    let HttpResponse { status, headers, body } =
        answer.map_err(|HttpFailure { code, text }| HttpError::Intercepted { code, text })?;
    if body.len() > grant.body_max {
        let text = format!("the response exceeds {} bytes (http_body)", grant.body_max);
        return Err(HttpError::Intercepted { code: TOO_LARGE, text });
    }
    let mut memory = request_memory.another();
    memory.grow(headers.len() + body.len())?;
    Ok(Response { status, head: headers, body, _memory: memory })
}

/// What an interceptor sees of a result.
fn answer_of(result: &Result<Response, HttpError>) -> HostAnswer {
    HostAnswer::Http(match result {
        Ok(Response { status, head, body, .. }) => {
            Ok(HttpResponse { status: *status, headers: head.clone(), body: body.clone() })
        }
        Err(error) => Err(HttpFailure { code: error.code(), text: error.to_string() }),
    })
}

/// The target of a request in a trace, without path and query, which may contain secrets.
fn target(request: &Request) -> CallTarget {
    CallTarget::Http {
        method: request.method.to_string(),
        host: request.url.host_str().unwrap_or_default().to_owned(),
        port: request.url.port(),
        status: None,
    }
}

/// Records the result of a request in the trace.
fn record<T: HasSpans>(
    guest: &mut T,
    call: Option<CallIndex>,
    result: &Result<Response, HttpError>,
) {
    let failed = || match result {
        Ok(response) if response.status >= 500 => Some(format!("status {}", response.status)),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    let target = guest.spans_mut().end(call, failed);
    if let (Some(CallTarget::Http { status, .. }), Ok(response)) = (target, result) {
        *status = Some(response.status);
    }
}

async fn read<T: HasHttp>(
    mut caller: Caller<'_, T>,
    part: u32,
    (dst, off, len): (u32, u32, u32),
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, READ)?;
    let target = view.range(dst, len)?;
    let View { bytes, guest, .. } = view;
    let Some(part) = guest.http().part(part) else { return Ok(NOT_FOUND) };
    let (target, rest) = (&mut bytes[target], part.get(off as usize..).unwrap_or_default());
    let count = target.len().min(rest.len());
    guest.calls().io.count_in(count);
    pieces::copy(target, rest).await;
    Ok(copied(count))
}
