//! The server that the manifest names: over TLS, examined by the doctor, and refused in one line where it cannot
//! serve.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use duebox_harness::{
    Authority, Daemon, RedisServer, duebox_binary, eventually, only_on_one_server,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::producer::push;
use crate::support::redis_state::key;

/// A server with a certificate, and a manifest that reaches it over TLS.
struct Secure {
    fixture: Fixture,
    authority: Authority,
    ca: PathBuf,
    files: TempDir,
}

fn secure(args: &[&str]) -> Secure {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = authority.write(&files.path().join("ca.pem"));
    let shown = authority.issue(files.path(), "server", &["localhost"]);
    let redis = RedisServer::with_tls(&ca, &shown, args);
    let url = redis.tls_url();
    let fixture = Fixture::on(redis).reached_at(url);
    Secure { fixture, authority, ca, files }
}

/// Adds keys to `[redis]` of the manifest.
fn add_to_redis(fixture: &Fixture, keys: &str) {
    let text = std::fs::read_to_string(fixture.path("duebox.toml")).unwrap();
    fixture.write("duebox.toml", text.replacen("[redis]\n", &format!("[redis]\n{keys}\n"), 1));
}

fn with_a_topic(fixture: &Fixture) {
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic("work", "work.wat", "done_retention = \"1h\"")]);
}

/// The exit code, stdout and stderr of a command.
fn say(fixture: &Fixture, words: &[&str]) -> (i32, String, String) {
    say_with(fixture, &[], words)
}

/// The same with these variables of the environment.
fn say_with(
    fixture: &Fixture,
    variables: &[(&str, &Path)],
    words: &[&str],
) -> (i32, String, String) {
    let output = Command::new(duebox_binary())
        .args(words)
        .current_dir(fixture.path(""))
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn examined(fixture: &Fixture) -> (i32, Value) {
    let (code, printed, failed) = say(fixture, &["doctor", "--redis", "--json"]);
    let report = serde_json::from_str(&printed);
    (code, report.unwrap_or_else(|error| panic!("{error}: {printed} {failed}")))
}

/// The error and the hint of a daemon that does not start.
fn refusal(fixture: &Fixture) -> String {
    let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
    let status = daemon.wait_exit();
    let printed: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    assert_eq!(status.code(), Some(1), "{printed:?}");
    let of = |start: &str| -> Vec<&str> {
        printed.iter().filter_map(|line| line.strip_prefix(start)).collect()
    };
    let (errors, hints) = (of("error: "), of("hint: "));
    assert_eq!((errors.len(), hints.len()), (1, 1), "{printed:?}");
    format!("{}; {}", errors.concat(), hints.concat())
}

#[test]
fn a_daemon_and_commands_work_over_tls() {
    only_on_one_server!("its server takes TLS; the queue tests a cluster over TLS");
    let Secure { fixture, authority, ca, files } = secure(&["--tls-auth-clients", "yes"]);
    with_a_topic(&fixture);
    let without = format!("ca = \"{}\"", ca.display());
    add_to_redis(&fixture, &without);
    let printed = refusal(&fixture);
    assert!(printed.contains("it requires a client certificate; set redis.cert"), "{printed}");
    let own = authority.issue(files.path(), "daemon", &["daemon"]);
    add_to_redis(
        &fixture,
        &format!("cert = \"{}\"\nkey = \"{}\"", own.cert.display(), own.key.display()),
    );
    let daemon = fixture.start();
    fixture.duebox(&["push", "work", "--id", "by-command"]);
    push(&fixture, "work", "plain", 0);
    let done = key("work", "done");
    eventually!(fixture.redis.cli(&["ZCARD", &done]) == "2", "both jobs ran");
    assert!(fixture.duebox(&["stats"]).contains("work"));
    let clients = fixture.redis.cli(&["CLIENT", "LIST"]);
    let plain = format!(":{} ", fixture.redis.server().port());
    // The only one is the one that asks.
    assert_eq!(clients.lines().filter(|line| line.contains(&plain)).count(), 1, "{clients}");
    let (code, report) = examined(&fixture);
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["tls"]["version"], "TLSv1_3", "{report}");
    assert_eq!(report["tls"]["certificate_expires"], "4000-01-01T00:00:00Z", "{report}");
    drop(daemon);
}

#[test]
fn the_authorities_of_ssl_cert_file_are_trusted_without_a_ca() {
    only_on_one_server!("its server takes TLS; the queue tests a cluster over TLS");
    let Secure { fixture, ca, files: _files, .. } = secure(&[]);
    with_a_topic(&fixture);
    let (code, _, failed) = say(&fixture, &["stats"]);
    assert!(code == 1 && failed.contains("is signed by an unknown issuer"), "{failed}");
    let (code, _, failed) = say_with(&fixture, &[("SSL_CERT_FILE", &ca)], &["stats"]);
    assert_eq!((code, failed.as_str()), (0, ""));
}

#[test]
fn a_certificate_that_expires_while_a_daemon_runs_is_an_outage() {
    only_on_one_server!("its server takes TLS; the queue tests a cluster over TLS");
    let Secure { fixture, authority, ca, files } = secure(&[]);
    with_a_topic(&fixture);
    add_to_redis(&fixture, &format!("ca = \"{}\"", ca.display()));
    let daemon = fixture.start();
    // The server shows a certificate that has expired, and closes its connections.
    let old = authority.issue_valid_in(files.path(), "old", &["localhost"], 2001, 2002);
    let show = |cert: &std::path::Path, key: &std::path::Path| {
        let (cert, key) = (cert.display().to_string(), key.display().to_string());
        fixture.redis.cli(&["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]);
        fixture.redis.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        fixture.redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    };
    show(&old.cert, &old.key);
    daemon.wait_for_line("the outage", |line| line.message().contains("Redis fails"));
    let (code, _, failed) = say(&fixture, &["stats"]);
    assert!(code == 1 && failed.contains("its certificate has expired"), "{failed}");
    let new = authority.issue(files.path(), "new", &["localhost"]);
    show(&new.cert, &new.key);
    daemon.wait_for_line("its end", |line| line.message() == "Redis is back");
    push(&fixture, "work", "after", 0);
    let done = key("work", "done");
    eventually!(fixture.redis.cli(&["ZCARD", &done]) == "1", "the job ran");
}

#[test]
fn a_daemon_refuses_what_is_wrong_with_one_line() {
    only_on_one_server!("its server takes TLS; the queue tests a cluster over TLS");
    let Secure { fixture, ca, files: _files, .. } = secure(&["--requirepass", "right"]);
    let (plain, tls) = (fixture.redis.server().port(), fixture.redis.server().tls_port());
    let at = |scheme: &str, port: u16| format!("{scheme}://localhost:{port}");
    let ca = format!("ca = \"{}\"", ca.display());
    for (url, keys, words) in [
        (at("redis", tls), "", "write rediss:// if that port takes TLS"),
        (at("rediss", plain), "", "write redis:// if that port does not take TLS"),
        (at("rediss", tls), "", "set redis.ca to the certificate of the authority"),
        (
            format!("rediss://127.0.0.1:{tls}"),
            ca.as_str(),
            "is not for 127.0.0.1, only for localhost",
        ),
        (at("rediss", tls), ca.as_str(), "refuses the login"),
        (format!("rediss://:wrong@localhost:{tls}"), ca.as_str(), "refuses the login"),
    ] {
        let text = format!("[redis]\nurl = \"{url}\"\n{keys}\n[topics.work]\n");
        fixture.write("duebox.toml", text);
        let printed = refusal(&fixture);
        assert!(printed.contains(words), "{words:?} is not in: {printed}");
        let (code, _, failed) = say(&fixture, &["stats"]);
        assert!(code == 1 && failed.contains("hint: "), "{failed}");
    }
}

#[test]
fn the_doctor_names_all_that_is_unfit() {
    only_on_one_server!("its server takes TLS; the queue tests a cluster over TLS");
    let fixture = Fixture::new();
    with_a_topic(&fixture);
    let (code, report) = examined(&fixture);
    assert_eq!((code, report["unfit"].as_array().map(Vec::len)), (0, Some(0)), "{report}");
    assert_eq!(report["persistence"], "none", "{report}");
    assert!(report["latency_us"]["max"].as_u64() >= report["latency_us"]["p50"].as_u64());
    assert!(report["clock_skew_ms"].as_f64().unwrap().abs() < 1000.0, "{report}");
    assert!(report["warnings"][0].as_str().unwrap().contains("does not persist"), "{report}");
    let (_, printed, _) = say(&fixture, &["doctor", "--redis"]);
    assert!(printed.contains("warning: Redis does not persist data"), "{printed}");

    fixture.redis.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    fixture.redis.cli(&["CONFIG", "SET", "maxmemory", "1100000"]);
    fixture.redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let (code, report) = examined(&fixture);
    assert_eq!(code, 1, "{report}");
    let unfit = report["unfit"].to_string();
    assert!(unfit.contains("allkeys-lru") && unfit.contains("is a replica of"), "{unfit}");
    assert!(report["warnings"].to_string().contains("% of maxmemory"), "{report}");
}
