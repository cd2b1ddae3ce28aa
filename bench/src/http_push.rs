//! Pushing over HTTP: one connection and 32 that push job by job, and two that push batches. The topic
//! has no handler and serves pull consumers, so the jobs stay and can be counted.
//!
//! The client is minimal, because it shares the cores with the server under test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use anyhow::{Context, ensure};
use duebox_harness::{Daemon, patience};
use serde_json::{Value, json};

use crate::fixture::{Fixture, TOPIC};
use crate::push::ensure_stored;
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::shutdown::QUIET_LOG;

/// Jobs per batch.
const BATCH: u64 = 1_000;
/// Connections that push batches, as many as the library's callers.
const CONNECTIONS: u64 = 2;

/// Connections that push job by job at the same time.
const MANY_CONNECTIONS: u64 = 32;

/// Measures the HTTP rows once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let one = push(settings, settings.pushes, 1, 1).await.context("one by one")?;
    results.add(Row::PushHttpOne, one);
    let many = push(settings, settings.pushes, MANY_CONNECTIONS, 1).await;
    results.add(Row::PushHttpMany, many.context("over many connections")?);
    let batches = push(settings, settings.jobs, CONNECTIONS, BATCH).await.context("in batches")?;
    results.add(Row::PushHttpBatch, batches);
    Ok(())
}

/// Jobs per second over `connections` connections with `batch` jobs per request.
async fn push(settings: &Settings, jobs: u64, connections: u64, batch: u64) -> anyhow::Result<f64> {
    let fixture = Fixture::prepare().await?;
    let text = format!(
        "{}[topics.{TOPIC}]\n[server]\nmax_body = \"8MiB\"\n",
        fixture.manifest_head(settings.in_flight, &format!("{QUIET_LOG},duebox::http=info"))
    );
    let mut daemon = Daemon::start(&fixture.write_manifest(&text)?);
    let at = served_at(&daemon)?;
    let share = jobs / connections;
    let mut bodies: Vec<Vec<Vec<u8>>> = Vec::new();
    for connection in 0..connections {
        let from = connection * share;
        bodies.push(requests(from..from + share, batch, settings.payload));
    }
    let started = Instant::now();
    let mut pushers = tokio::task::JoinSet::new();
    for requests in bodies {
        pushers.spawn_blocking(move || push_all(at, &requests, batch));
    }
    while let Some(pusher) = pushers.join_next().await {
        pusher??;
    }
    let took_s = started.elapsed().as_secs_f64();
    ensure_stored(&fixture, share * connections).await?;
    ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    Ok((share * connections) as f64 / took_s)
}

/// The address on which a daemon serves HTTP, from its log at level info.
pub(crate) fn served_at(daemon: &Daemon) -> anyhow::Result<SocketAddr> {
    let line =
        daemon.wait_for_line("where it serves HTTP", |line| line.message() == "HTTP is served");
    line.str("address").parse().context("the logged HTTP address is invalid")
}

/// Builds complete requests, head and body, with `batch` jobs each.
fn requests(numbers: std::ops::Range<u64>, batch: u64, payload_len: u64) -> Vec<Vec<u8>> {
    let payload = "x".repeat(usize::try_from(payload_len).unwrap_or_default());
    let job = |number| json!({ "id": format!("job-{number:08}"), "payload": payload });
    let mut requests = Vec::new();
    let mut from = numbers.start;
    while from < numbers.end {
        let until = numbers.end.min(from + batch);
        let body = if batch == 1 {
            job(from).to_string()
        } else {
            Value::Array((from..until).map(job).collect()).to_string()
        };
        let head = format!(
            "POST /v1/topics/{TOPIC}/jobs HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        requests.push([head.as_bytes(), body.as_bytes()].concat());
        from = until;
    }
    requests
}

/// Sends all requests over one connection; each must store all its jobs.
fn push_all(at: SocketAddr, requests: &[Vec<u8>], batch: u64) -> anyhow::Result<()> {
    let stream = TcpStream::connect(at).with_context(|| format!("cannot connect to {at}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience()))?;
    let mut connection = BufReader::new(stream);
    for request in requests {
        connection.get_mut().write_all(request)?;
        let (status, body) = read_response(&mut connection)?;
        let body_text = || String::from_utf8_lossy(&body).into_owned();
        if batch == 1 {
            ensure!(status == 201, "a push was answered with {status}: {}", body_text());
        } else {
            let found: Value = serde_json::from_slice(&body).unwrap_or_default();
            let all = found["refused"] == 0 && found["existing"] == 0;
            ensure!(status == 200 && all, "a batch was answered with {status}: {}", body_text());
        }
    }
    Ok(())
}

/// Reads status and body of the next response.
pub(crate) fn read_response(
    connection: &mut BufReader<TcpStream>,
) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.with_context(|| format!("invalid status line: {line:?}"))?;
    let mut length = None;
    loop {
        line.clear();
        connection.read_line(&mut line)?;
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let mut body = vec![0; length.context("the response has no content-length")?];
    connection.read_exact(&mut body)?;
    Ok((status, body))
}
