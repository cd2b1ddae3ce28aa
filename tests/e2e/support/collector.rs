//! An OTLP trace collector and a plain HTTP server for handlers, on one socket. It records the spans and the
//! other requests that it receives.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// The parts of a span that tests check.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    /// The OTLP span kind: 3 client, 4 producer, 5 consumer.
    pub(crate) kind: i32,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    pub(crate) is_error: bool,
    pub(crate) ns: (u64, u64),
    attributes: BTreeMap<String, String>,
}

/// A request other than a batch of spans.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

#[derive(Default)]
struct Received {
    spans: Vec<ReceivedSpan>,
    services: Vec<String>,
    asked: Vec<ReceivedRequest>,
}

/// The collector. It runs until the test process ends.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    kept: Arc<Mutex<Received>>,
}

impl Collector {
    /// Starts a collector that accepts spans on `/v1/traces`. It responds to the first request for `/fails` with 503,
    /// to the first for `/drops` not at all, and to all others with 200.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::<Mutex<Received>>::default();
        let taken = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, taken) = (stream.unwrap(), Arc::clone(&taken));
                std::thread::spawn(move || serve(stream, &taken));
            }
        });
        Self { address, kept }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans with this name, in the order of their arrival.
    pub(crate) fn spans(&self, name: &str) -> Vec<ReceivedSpan> {
        self.all().into_iter().filter(|span| span.name == name).collect()
    }

    pub(crate) fn all(&self) -> Vec<ReceivedSpan> {
        self.kept.lock().unwrap().spans.clone()
    }

    /// The service names of the senders.
    pub(crate) fn services(&self) -> Vec<String> {
        self.kept.lock().unwrap().services.clone()
    }

    pub(crate) fn asked(&self) -> Vec<ReceivedRequest> {
        self.kept.lock().unwrap().asked.clone()
    }
}

impl ReceivedSpan {
    /// The value of an attribute; empty without it.
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// Serves one connection to its end.
fn serve(stream: TcpStream, kept: &Mutex<Received>) {
    let mut reader = BufReader::new(stream);
    while let Some((path, headers, body)) = next_request(&mut reader) {
        let mut kept = kept.lock().unwrap();
        let status = if path == "/v1/traces" {
            take(&mut kept, &body);
            "200 OK"
        } else {
            let is_first = !kept.asked.iter().any(|asked| asked.path == path);
            kept.asked.push(ReceivedRequest { path: path.clone(), headers });
            match path.as_str() {
                "/drops" if is_first => return,
                "/fails" if is_first => "503 Service Unavailable",
                _ => "200 OK",
            }
        };
        drop(kept);
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The next request of a connection: its path, its headers, its body.
fn next_request(
    reader: &mut BufReader<TcpStream>,
) -> Option<(String, BTreeMap<String, String>, Vec<u8>)> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|bytes| *bytes > 0)?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, headers, body))
}

fn take(kept: &mut Received, body: &[u8]) {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for resource in request.resource_spans {
        let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
        kept.services.push(attributes_of(attributes).remove("service.name").unwrap_or_default());
        for scope in resource.scope_spans {
            kept.spans.extend(scope.spans.into_iter().map(seen));
        }
    }
}

fn seen(span: Span) -> ReceivedSpan {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    ReceivedSpan {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        kind: span.kind,
        state: span.trace_state,
        is_error: span.status.is_some_and(|status| status.code == 2),
        ns: (span.start_time_unix_nano, span.end_time_unix_nano),
        attributes: attributes_of(span.attributes),
    }
}

fn attributes_of(
    pairs: Vec<opentelemetry_proto::tonic::common::v1::KeyValue>,
) -> BTreeMap<String, String> {
    let text = |value: Value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let value = |value: Option<opentelemetry_proto::tonic::common::v1::AnyValue>| {
        value.and_then(|value| value.value).map(text).unwrap_or_default()
    };
    pairs.into_iter().map(|pair| (pair.key, value(pair.value))).collect()
}
