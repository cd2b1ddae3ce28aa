//! Sends an arbitrary request over a pipe to the real API, whose Redis sends arbitrary replies. The
//! input is the request as text, a line `---`, and the replies as words. `!` before the request line
//! sends it to a server with tokens. A bug of the server is a panic, status 500, an error without a
//! remedy, invalid JSON, a response of unbounded size, or memory that is still held at the end.
#![no_main]

use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use duebox::PipeServer;
use duebox::manifest::{Environment, Flags, Manifest};
use duebox_fuzz::fake_redis::FakeRedis;
use duebox_fuzz::http::{Request, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a response may take. Pulls wait for jobs, and the stream of events has no end.
const WITHIN: Duration = Duration::from_millis(50);
/// The largest response: the page and the API's document are fixed, a job has its payload.
const RESPONSE_MAX: usize = 2 << 20;
/// The bytes that the pipe holds.
const PIPE: usize = 64 << 10;

const MANIFEST: &str = r#"
[redis]
url = "unix:///nowhere.sock"
[server]
listen = "127.0.0.1:0"
max_body = "64KiB"
[topics.mail]
max_attempts = 2
done_retention = "1m"
[topics."t.*"]
unique_for = "1m"
[[schedules]]
name = "nightly"
topic = "mail"
cron = "0 3 * * *"
payload = "{}"
"#;
/// The token of the seeds is `duebox_NSoPt7A0-oAWNJkVEvfkgHBbG0apNn-ydfM8J-z7HGs`.
const TOKENS: &str = r#"
["shop"]
sha256 = "b2b5d186c421b39d3873a151081b2db879dc4cbf481ce6210768b5491749b10d"
scopes = ["push","consume","read","admin","metrics"]
topics = ["mail","t.*"]
"#;

/// A server that everyone may use, and one with tokens.
static SERVERS: LazyLock<[PipeServer; 2]> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("tokens.toml"), TOKENS).expect("the file of tokens");
    let guarded = MANIFEST.replace("[server]", "[server]\ntokens = \"tokens.toml\"");
    [MANIFEST.to_owned(), guarded].map(|text| server(text, folder.path()))
});

fn server(text: String, folder: &Path) -> PipeServer {
    let environment = Environment::new(Flags::default(), []);
    let manifest = Manifest::parse(&folder.join("duebox.toml"), text, &environment);
    let manifest = manifest.unwrap_or_else(|error| panic!("{}", error.render(false)));
    let redis = FakeRedis::get();
    let _entered = redis.runtime.enter();
    PipeServer::new(redis.connect(), redis.settings(), manifest).expect("a server")
}

fuzz_target!(|input: &[u8]| {
    let (text, replies) = split(input, b"\n---\n").unwrap_or((input, b""));
    let server = &SERVERS[usize::from(text.starts_with(b"!"))];
    let request = Request::read(text.strip_prefix(b"!").unwrap_or(text), gzip);
    let redis = FakeRedis::get();
    redis.answer_with(replies);
    let received = redis.runtime.block_on(exchange(server, &request.bytes));
    check(&request, &received);
    // What the connection left behind gets its turn to end.
    redis.runtime.block_on(async {
        while server.body_bytes() > 0 {
            tokio::task::yield_now().await
        }
    });
});

/// Sends a request and receives what comes until the server closes the connection or takes long.
async fn exchange(server: &PipeServer, request: &[u8]) -> Vec<u8> {
    let (here, there) = tokio::io::duplex(PIPE);
    let mut received = Vec::new();
    let (mut reader, mut writer) = tokio::io::split(there);
    let client = async {
        let send = async {
            drop(writer.write_all(request).await);
            // The connection stays open for the response.
            std::future::pending::<()>().await;
        };
        let receive = async {
            while let Ok(1..) = reader.read_buf(&mut received).await {
                assert!(received.len() <= RESPONSE_MAX, "a response of {} bytes", received.len());
            }
        };
        tokio::select! { () = send => {}, () = receive => {} }
    };
    let both = async { tokio::join!(server.serve(here), client) };
    drop(tokio::time::timeout(WITHIN, both).await);
    received
}

fn check(request: &Request, received: &[u8]) {
    let Some(response) = Response::read(received, request.is_head) else { return };
    let shown = || String::from_utf8_lossy(received).into_owned();
    assert_ne!(response.status, 500, "{}", shown());
    // The library refuses what is not HTTP itself, without a body.
    if response.header("x-request-id").is_none() || request.is_head || response.is_cut {
        return;
    }
    let kind = response.header("content-type").unwrap_or_default();
    if response.header("content-encoding").is_some() {
        return;
    }
    if kind.contains("json") && !kind.contains("ndjson") {
        let body: serde_json::Value = serde_json::from_slice(&response.body)
            .unwrap_or_else(|why| panic!("{why}: {}", shown()));
        if kind.contains("problem") {
            let has_text = |field: &str| body[field].as_str().is_some_and(|text| !text.is_empty());
            assert!(has_text("detail") && has_text("remedy"), "{}", shown());
        }
    }
    if kind.contains("ndjson") {
        let lines = response.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for line in lines {
            serde_json::from_slice::<serde_json::Value>(line)
                .unwrap_or_else(|why| panic!("{why}: {}", shown()));
        }
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn split<'i>(input: &'i [u8], at: &[u8]) -> Option<(&'i [u8], &'i [u8])> {
    let found = input.windows(at.len()).position(|window| window == at)?;
    Some((&input[..found], &input[found + at.len()..]))
}
