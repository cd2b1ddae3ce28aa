//! Sends spans in batches with OpenTelemetry's OTLP exporter over HTTP. A batch that the collector does not
//! accept is lost; the log reports the first failure and the recovery.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::{Mutex, mpsc, watch};
use tracing::{info, warn};
use url::Url;

use super::{Destination, SpanCounts};
use crate::observe::counters::add;

/// The most spans in a batch.
const BATCH_MAX: usize = 512;
/// How long a span waits for others in its batch.
const GATHER: Duration = Duration::from_millis(500);
/// The timeout of one batch, including retries.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends spans until the stop.
pub(super) async fn send(
    waiting: Arc<Mutex<mpsc::Receiver<SpanData>>>,
    mut named: watch::Receiver<Destination>,
    counts: Arc<SpanCounts>,
    runner_id: String,
) {
    let mut waiting = waiting.lock().await;
    let mut sender = Sender { exporter: None, is_failing: false, counts, runner_id };
    let mut destination = Destination::None;
    let mut batch = Vec::with_capacity(BATCH_MAX);
    loop {
        let wanted = named.borrow_and_update().clone();
        if wanted != destination {
            sender.turn_to(&wanted);
            destination = wanted;
        }
        if destination == Destination::Over {
            break;
        }
        tokio::select! {
            _ = waiting.recv_many(&mut batch, BATCH_MAX) => {}
            changed = named.changed() => match changed {
                Ok(()) => {
                    named.mark_changed();
                    continue;
                }
                Err(_) => break,
            },
        }
        // Wait for further spans of this batch.
        let gathered = async {
            while batch.len() < BATCH_MAX {
                let room = BATCH_MAX - batch.len();
                waiting.recv_many(&mut batch, room).await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(GATHER, gathered) => {}
            _ = named.changed() => named.mark_changed(),
        }
        sender.send(std::mem::take(&mut batch)).await;
    }
    while let Ok(span) = waiting.try_recv() {
        batch.push(span);
        if batch.len() == BATCH_MAX {
            sender.send(std::mem::take(&mut batch)).await;
        }
    }
    sender.send(batch).await;
}

struct Sender {
    exporter: Option<SpanExporter>,
    is_failing: bool,
    counts: Arc<SpanCounts>,
    runner_id: String,
}

impl Sender {
    fn turn_to(&mut self, destination: &Destination) {
        let collector = match destination {
            Destination::At(collector) => collector,
            Destination::None => {
                self.exporter = None;
                return;
            }
            // Waiting spans are still sent to the last collector.
            Destination::Over => return,
        };
        match exporter(collector, &self.runner_id) {
            Ok(exporter) => {
                info!(collector = %collector, "sending traces");
                (self.exporter, self.is_failing) = (Some(exporter), false);
            }
            Err(error) => {
                self.exporter = None;
                warn!(collector = %collector, error, "traces cannot be sent; all spans are dropped");
            }
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len();
        if spans == 0 {
            return;
        }
        let Some(exporter) = &self.exporter else {
            add(&self.counts.dropped, spans);
            return;
        };
        let error = match tokio::time::timeout(SEND_TIMEOUT, exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no reply within {} s", SEND_TIMEOUT.as_secs())),
        };
        let (count, was_failing) = match &error {
            None => (&self.counts.exported, std::mem::take(&mut self.is_failing)),
            Some(_) => (&self.counts.failed, std::mem::replace(&mut self.is_failing, true)),
        };
        add(count, spans);
        match error {
            Some(error) if !was_failing => warn!(
                error,
                "the trace collector does not accept spans; jobs continue, spans are lost until it does"
            ),
            None if was_failing => info!("the trace collector accepts spans again"),
            _ => {}
        }
    }
}

/// Creates an exporter to a collector.
fn exporter(collector: &Url, runner_id: &str) -> Result<SpanExporter, String> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(
            duebox_sandbox::client_tls_config().map_err(|error| error.to_string())?,
        )
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(SEND_TIMEOUT)
        .user_agent(concat!("duebox/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())?;
    let endpoint = format!("{}/v1/traces", collector.as_str().trim_end_matches('/'));
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint)
        .with_timeout(SEND_TIMEOUT)
        .build()
        .map_err(|error| error.to_string())?;
    let resource = Resource::builder_empty()
        .with_service_name("duebox")
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", runner_id.to_owned()),
        ])
        .build();
    exporter.set_resource(&resource);
    Ok(exporter)
}
