//! The shop's HTTP API: paths, token, faults, and access to the books. Every refusal has its reason
//! in `{"error":"…"}`.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::books::{Caller, Message, OrderView, PaymentStates, Refusal};
use crate::faults::{Fault, FaultRequest, delay, response_head};
use crate::{Inner, lock};

/// Maximum length of a request body, in bytes.
const BODY_MAX: usize = 64 << 10;

type Shop = State<Arc<Inner>>;
type ApiResult<T> = Result<T, Refusal>;

pub(crate) fn router(inner: Arc<Inner>) -> Router {
    Router::new()
        .route("/orders/{id}", put(put_order).get(get_order))
        .route("/orders/{id}/close", post(close_order))
        .route("/orders/{id}/pay", post(pay_order))
        .route("/payments/{id}", put(put_payment).get(get_payment))
        .route("/messages", post(send_message).get(get_messages))
        .route("/faults", post(inject_fault).delete(clear_faults))
        .layer(from_fn_with_state(Arc::clone(&inner), apply_fault))
        .layer(from_fn_with_state(Arc::clone(&inner), check_token))
        .route("/ledger", get(get_ledger))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(inner)
}

async fn put_order(
    State(shop): Shop,
    Path(id): Path<String>,
    body: Result<Json<PaymentStates>, JsonRejection>,
) -> ApiResult<Json<OrderView>> {
    lock(&shop.books).put_order(&id, read(body)?).map(Json)
}

async fn get_order(
    State(shop): Shop,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> ApiResult<Json<OrderView>> {
    lock(&shop.books).order(&id, &caller(&headers), true).map(Json)
}

async fn close_order(
    State(shop): Shop,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> ApiResult<Json<OrderView>> {
    lock(&shop.books).close(&id, &caller(&headers)).map(Json)
}

async fn pay_order(State(shop): Shop, Path(id): Path<String>) -> ApiResult<Json<OrderView>> {
    lock(&shop.books).pay(&id).map(Json)
}

async fn put_payment(
    State(shop): Shop,
    Path(id): Path<String>,
    body: Result<Json<PaymentStates>, JsonRejection>,
) -> ApiResult<StatusCode> {
    lock(&shop.books).put_payment(&id, read(body)?).map(|()| StatusCode::NO_CONTENT)
}

async fn get_payment(
    State(shop): Shop,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> ApiResult<Json<Value>> {
    let state = lock(&shop.books).payment(&id, &caller(&headers))?;
    Ok(Json(json!({ "payment": id, "state": state })))
}

/// Responds 201 if the message is sent now, 200 if it was sent before.
async fn send_message(
    State(shop): Shop,
    headers: HeaderMap,
    body: Result<Json<Message>, JsonRejection>,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let (number, is_new) = lock(&shop.books).send(read(body)?, &caller(&headers))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(json!({ "message": number, "repeated": !is_new }))))
}

async fn get_messages(State(shop): Shop) -> Json<Vec<Message>> {
    Json(lock(&shop.books).messages().to_vec())
}

async fn get_ledger(State(shop): Shop) -> Response {
    let lines: Vec<String> = lock(&shop.books)
        .ledger()
        .iter()
        .map(|entry| serde_json::to_string(entry).unwrap_or_default() + "\n")
        .collect();
    ([(header::CONTENT_TYPE, "application/jsonl")], lines.concat()).into_response()
}

async fn inject_fault(
    State(shop): Shop,
    body: Result<Json<FaultRequest>, JsonRejection>,
) -> ApiResult<StatusCode> {
    let pending = lock(&shop.faults).add(read(body)?);
    pending.map(|()| StatusCode::NO_CONTENT).map_err(|why| Refusal(StatusCode::BAD_REQUEST, why))
}

async fn clear_faults(State(shop): Shop) -> StatusCode {
    lock(&shop.faults).clear();
    StatusCode::NO_CONTENT
}

/// Refuses requests without the token.
async fn check_token(State(shop): Shop, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
    if shop.token.is_some() && shown != shop.token.as_deref() {
        let why = "this shop requires its token: Authorization: Bearer …";
        return Refusal(StatusCode::UNAUTHORIZED, why.to_owned()).into_response();
    }
    next.run(request).await
}

/// Applies the fault for a request, if there is one.
async fn apply_fault(State(shop): Shop, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let fault = if path == "/faults" { None } else { lock(&shop.faults).take(path) };
    match fault {
        None => next.run(request).await,
        Some(Fault::Slow { ms }) => {
            let response = next.run(request).await;
            tokio::time::sleep(delay(ms)).await;
            response
        }
        Some(Fault::Hang) => std::future::pending().await,
        Some(Fault::Answer { status, retry_after }) => {
            match response_head(status, retry_after.as_deref()) {
                Ok((status, headers)) => {
                    (status, headers, error_body("injected fault")).into_response()
                }
                Err(why) => Refusal(StatusCode::INTERNAL_SERVER_ERROR, why).into_response(),
            }
        }
        Some(Fault::Lost) => {
            drop(next.run(request).await);
            Refusal(StatusCode::BAD_GATEWAY, "the response is lost".to_owned()).into_response()
        }
    }
}

fn caller(headers: &HeaderMap) -> Caller {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Caller { key: text("idempotency-key").unwrap_or_default(), attempt: text("duebox-attempt") }
}

fn read<T>(body: Result<Json<T>, JsonRejection>) -> ApiResult<T> {
    body.map(|Json(value)| value).map_err(|why| Refusal(why.status(), why.body_text()))
}

fn error_body(why: &str) -> Json<Value> {
    Json(json!({ "error": why }))
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(status, why) = self;
        (status, error_body(&why)).into_response()
    }
}
