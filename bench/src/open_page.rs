//! What an open page costs the daemon and Redis with many topics, beyond what the jobs cost: the requests that the
//! page sends, in its intervals, while jobs fall due. Without a browser: the browser's own work is not counted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use duebox_job::TopicName;
use duebox_queue::Due;

use crate::fixture::{Fixture, new_jobs, push_to};
use crate::http_push;
use crate::machine::cpu_s;
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::topics::{name, start};

/// Jobs that fall due in a second, over all topics.
const JOBS_PER_SECOND: u64 = 100;
/// From the push of the jobs to the first measurement: longer than pushing to all topics takes.
const LEAD: Duration = Duration::from_secs(5);

/// A request of the page and how often it sends it.
type Request = (String, Duration);

/// CPU time of both by elapsed time, percent of a core.
struct Share {
    daemon: f64,
    redis: f64,
}

/// Measures the page of all topics and that of one, once. Each is compared with the mean of a window before and one after,
/// because the cost of the jobs drifts over minutes.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let fixture = Fixture::prepare().await?;
    let mut daemon = start(&fixture, settings, settings.topics)?;
    let at = http_push::served_at(&daemon)?;
    let phase = Duration::from_secs(settings.page_s);
    push(&fixture, settings, LEAD + 5 * phase).await?;
    tokio::time::sleep(LEAD).await;
    let mut shares = Vec::new();
    for requests in [Vec::new(), all_topics(settings.topics), one_topic(), Vec::new()] {
        shares.push(share(&fixture, daemon.pid(), at, (requests, phase)).await?);
    }
    ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    let [before, all, one, after]: [Share; 4] =
        shares.try_into().ok().context("four measurements")?;
    let more = |of: fn(&Share) -> f64, with: &Share| {
        (of(with) - f64::midpoint(of(&before), of(&after))).max(0.0)
    };
    results.add(Row::PageDaemon, more(|share| share.daemon, &all));
    results.add(Row::PageRedis, more(|share| share.redis, &all));
    results.add(Row::TopicPageDaemon, more(|share| share.daemon, &one));
    results.add(Row::TopicPageRedis, more(|share| share.redis, &one));
    Ok(())
}

/// Jobs that fall due one by one for so long, distributed over the topics in turn.
async fn push(fixture: &Fixture, settings: &Settings, span: Duration) -> anyhow::Result<()> {
    let count = span.as_secs() * JOBS_PER_SECOND;
    let first_ms = fixture.now_ms().await?;
    let due = |number: u64| Due::At(first_ms + number * 1_000 / JOBS_PER_SECOND);
    let jobs = new_jobs("page", count, settings.payload, due)?;
    for number in 0..settings.topics {
        let topic = TopicName::new(&name(number))?;
        let step = usize::try_from(settings.topics)?;
        let mine = jobs.iter().skip(usize::try_from(number)?).step_by(step);
        push_to(&fixture.queue, &topic, &mine.cloned().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// What `topics.js` and `history.js` ask for: the history by the length of its steps, the list by its length.
fn all_topics(topics: u64) -> Vec<Request> {
    let list_every = Duration::from_secs((topics / 100).max(1));
    vec![
        ("/v1/history?span=10m&steps=120&topics=true".to_owned(), Duration::from_secs(5)),
        ("/v1/topics".to_owned(), list_every),
    ]
}

/// What `topic.js` asks for: the topic every second, its lists every two.
fn one_topic() -> Vec<Request> {
    let topic = name(0);
    let path = |rest: &str| format!("/v1/topics/{topic}{rest}");
    let history = format!("/v1/history?span=10m&steps=120&topic={topic}&buckets=true");
    vec![
        (history, Duration::from_secs(5)),
        (path(""), Duration::from_secs(1)),
        (path("/jobs?limit=8"), Duration::from_secs(2)),
        (path("/dead?limit=25"), Duration::from_secs(2)),
    ]
}

/// Sends the requests for so long and measures what both spend meanwhile.
async fn share(
    fixture: &Fixture,
    pid: u32,
    at: SocketAddr,
    (requests, phase): (Vec<Request>, Duration),
) -> anyhow::Result<Share> {
    let (before, daemon_before_s) = (fixture.load().await?, cpu_s(pid)?);
    let began = Instant::now();
    let mut next = vec![began; requests.len()];
    while began.elapsed() < phase {
        for ((path, every), due) in requests.iter().zip(&mut next) {
            if *due <= Instant::now() {
                ask(at, path)?;
                *due += *every;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took_s = began.elapsed().as_secs_f64();
    let daemon_s = cpu_s(pid)? - daemon_before_s;
    let load = fixture.load_since(before, 0).await?;
    Ok(Share { daemon: 100.0 * daemon_s / took_s, redis: 100.0 * load.cpu_s / took_s })
}

/// Sends a request as a browser does, with compression, and reads the whole response.
fn ask(at: SocketAddr, path: &str) -> anyhow::Result<()> {
    let mut connection = TcpStream::connect(at)?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip, deflate, br, zstd\r\nconnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes())?;
    let mut response = Vec::new();
    connection.read_to_end(&mut response)?;
    ensure!(response.starts_with(b"HTTP/1.1 200 "), "{path} was not answered with 200");
    Ok(())
}
