//! A guest that sends the requests of its payload and returns the last response, with its environment.

use std::sync::Arc;

use bytes::Bytes;
use duebox_job::Outcome;
use duebox_sandbox::{
    Grants, Handler, HostServices, HttpClient, HttpConfig, HttpGrant, Interrupt, Invocation, Limits,
};
use ipnet::IpNet;
use tokio::runtime::Handle;

use crate::support::{Lines, job, load_with};

/// Sends one request for each part of its payload: the timeout, the lengths of head and body (each as four
/// little-endian bytes), head, body. Its result describes the last response: the return value, the lengths of
/// its parts, and the first 48 KiB of each part.
pub(crate) const HTTP_GUEST: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 200)
  (global $end (mut i32) (i32.const 65552))
  (func $part (param $number i32)
    (local $length i32)
    (local.set $length
      (call $read (local.get $number) (i32.const 262144) (i32.const 0) (i32.const 8388608)))
    (i32.store
      (i32.add (i32.const 65540) (i32.mul (local.get $number) (i32.const 4))) (local.get $length))
    (if (i32.gt_s (local.get $length) (i32.const 49152))
      (then (local.set $length (i32.const 49152))))
    (if (i32.gt_s (local.get $length) (i32.const 0))
      (then
        (memory.copy (global.get $end) (i32.const 262144) (local.get $length))
        (global.set $end (i32.add (global.get $end) (local.get $length))))))
  (func (export "handle") (param $len i32) (result i32)
    (local $at i32) (local $head i32) (local $body i32)
    (drop (call $payload_read (i32.const 131072) (i32.const 0) (local.get $len)))
    (local.set $at (i32.const 131072))
    (local.set $len (i32.add (local.get $len) (i32.const 131072)))
    (loop $next
      (local.set $head (i32.load offset=4 (local.get $at)))
      (local.set $body (i32.load offset=8 (local.get $at)))
      (i32.store (i32.const 65536)
        (call $send
          (i32.add (local.get $at) (i32.const 12)) (local.get $head)
          (i32.add (i32.add (local.get $at) (i32.const 12)) (local.get $head)) (local.get $body)
          (i32.load (local.get $at))))
      (local.set $at (i32.add (i32.add (local.get $at) (i32.const 12))
        (i32.add (local.get $head) (local.get $body))))
      (br_if $next (i32.lt_u (local.get $at) (local.get $len))))
    (call $part (i32.const 0))
    (call $part (i32.const 1))
    (call $part (i32.const 2))
    (drop (call $result (i32.const 65536) (i32.sub (global.get $end) (i32.const 65536))))
    (i32.const 0)))"#;

/// The result of a request.
#[derive(Debug)]
pub(crate) struct TestResponse {
    /// The status, or an error of docs/reference/abi.md.
    pub(crate) code: i32,
    pub(crate) head: String,
    /// The first 48 KiB.
    pub(crate) body: Vec<u8>,
    /// The full length.
    pub(crate) body_length: usize,
    pub(crate) error: String,
}

impl TestResponse {
    fn read(result: &[u8]) -> Self {
        let number = |at: usize| i32::from_le_bytes(result[at..at + 4].try_into().unwrap());
        let lengths =
            [number(4), number(8), number(12)].map(|length| usize::try_from(length).unwrap());
        let mut rest = &result[16..];
        let mut part = |length: usize| {
            let (part, more) = rest.split_at(length.min(48 << 10));
            rest = more;
            part.to_vec()
        };
        let [head, body, error] = lengths.map(&mut part);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (head, error) = (text(head), text(error));
        Self { code: number(0), head, body, body_length: lengths[1], error }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}

/// A request of the guest.
pub(crate) struct TestRequest<'a> {
    pub(crate) head: &'a str,
    pub(crate) body: &'a [u8],
    /// In milliseconds; 0 means no time limit.
    pub(crate) timeout: u32,
}

impl<'a> From<&'a str> for TestRequest<'a> {
    fn from(head: &'a str) -> Self {
        TestRequest { head, body: b"", timeout: 0 }
    }
}

/// A guest with a grant and a network.
pub(crate) struct HttpGuest {
    handler: Handler,
    services: Arc<HostServices>,
}

impl HttpGuest {
    /// A guest that may send requests to these origins, also on loopback.
    pub(crate) fn to(origins: &[&str]) -> Self {
        Self::with(grant(origins, &["127.0.0.0/8", "::1/128"]), client(HttpConfig::default()))
    }

    pub(crate) fn with(grant: HttpGrant, client: HttpClient) -> Self {
        let http = Some(grant);
        let handler =
            load_with(HTTP_GUEST, Limits::default(), Grants { http, ..Grants::default() });
        let services =
            Arc::new(HostServices { http: Some(client), ..HostServices::with_logs(Lines::new()) });
        Self { handler, services }
    }

    /// Sends one request.
    pub(crate) async fn ask(&self, ask: impl Into<TestRequest<'_>>) -> TestResponse {
        self.send_all(job(), &[ask.into()]).await
    }

    /// Sends several requests in one job. Returns the last response.
    pub(crate) async fn send_all(&self, job: Invocation, asks: &[TestRequest<'_>]) -> TestResponse {
        let job = Invocation { payload: payload(asks), ..job };
        let report = self.handler.run(job, Interrupt::new(), Arc::clone(&self.services)).await;
        assert_eq!(report.outcome, Outcome::Acked);
        TestResponse::read(&report.result.unwrap())
    }
}

/// The payload with these requests.
pub(crate) fn payload(asks: &[TestRequest<'_>]) -> Bytes {
    let mut payload = Vec::new();
    for ask in asks {
        for number in [ask.timeout, ask.head.len() as u32, ask.body.len() as u32] {
            payload.extend_from_slice(&number.to_le_bytes());
        }
        payload.extend_from_slice(ask.head.as_bytes());
        payload.extend_from_slice(ask.body);
    }
    payload.into()
}

/// A grant of origins and private ranges.
pub(crate) fn grant(origins: &[&str], private: &[&str]) -> HttpGrant {
    HttpGrant {
        allow: origins.iter().map(|origin| origin.parse().unwrap()).collect(),
        private: private.iter().map(|range| range.parse::<IpNet>().unwrap()).collect(),
        ..HttpGrant::default()
    }
}

/// A client on the runtime of the test.
pub(crate) fn client(config: HttpConfig) -> HttpClient {
    HttpClient::with(Handle::current(), config)
}
