//! The managed Redis and the check of an external Redis, on real servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails there")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use duebox::redis_host::fitness::{self, Unfit, Warning};
use duebox::redis_host::managed::{Fsync, ManagedRedis, RedisServerError};
use duebox_harness::{RedisServer, eventually, patience};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

async fn connect(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

async fn config(connection: &mut MultiplexedConnection, name: &str) -> String {
    let shown: Vec<String> =
        redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await.unwrap();
    shown[1].clone()
}

async fn process_id(connection: &mut MultiplexedConnection) -> u32 {
    let info: redis::InfoDict =
        redis::cmd("INFO").arg("server").query_async(connection).await.unwrap();
    info.get("process_id").unwrap()
}

fn kill(pid: u32) {
    duebox_harness::send_signal("KILL", pid);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn acknowledged_writes_survive_a_stop() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data of mine");
    let server = ManagedRedis::start(&dir, Fsync::No).await.unwrap();
    let mut connection = connect(server.url()).await;
    let () = connection.set("k", "v").await.unwrap();
    assert_eq!(config(&mut connection, "appendonly").await, "yes");
    assert_eq!(config(&mut connection, "appendfsync").await, "no");
    assert_eq!(config(&mut connection, "maxmemory-policy").await, "noeviction");
    assert_eq!(config(&mut connection, "port").await, "0");
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("redis.sock")), 0o700);
    server.stop().await.unwrap();
    assert!(!dir.join("redis.sock").exists(), "the server is gone when stop returns");

    let server = ManagedRedis::start(&dir, Fsync::Always).await.unwrap();
    let mut connection = connect(server.url()).await;
    assert_eq!(connection.get::<_, String>("k").await.unwrap(), "v");
    assert_eq!(fitness::check(&mut connection, false).await.unwrap(), []);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_daemon_cannot_use_the_directory() {
    let root = tempfile::tempdir().unwrap();
    let server = ManagedRedis::start(root.path(), Fsync::Everysec).await.unwrap();
    let second = ManagedRedis::start(root.path(), Fsync::Everysec).await.unwrap_err();
    assert!(matches!(second, RedisServerError::InUse { .. }), "{second}");
    assert!(second.to_string().contains(root.path().to_str().unwrap()));
    server.stop().await.unwrap();
}

/// Starts a server in the state that a killed daemon leaves: running, without a lock.
async fn leave_an_orphan(dir: &Path) -> std::process::Child {
    let orphan = Command::new("redis-server")
        .current_dir(dir)
        .args(["--port", "0", "--unixsocket", "redis.sock", "--appendonly", "yes", "--save", ""])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually!(std::os::unix::net::UnixStream::connect(dir.join("redis.sock")).is_ok());
    orphan
}

#[tokio::test]
async fn an_orphan_is_adopted_with_its_data_and_stopped() {
    let root = tempfile::tempdir().unwrap();
    let mut orphan = leave_an_orphan(root.path()).await;
    let server = ManagedRedis::start(root.path(), Fsync::Always).await.unwrap();
    let mut connection = connect(server.url()).await;
    assert_eq!(process_id(&mut connection).await, orphan.id());
    assert_eq!(config(&mut connection, "appendfsync").await, "always");
    server.stop().await.unwrap();
    assert!(orphan.wait().unwrap().success());
}

/// Reads `k` from a server that is no longer the process `pid` and has loaded its data.
async fn read_from_another(url: &str, pid: u32) -> redis::RedisResult<String> {
    let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let info: redis::InfoDict =
        redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    if info.get("process_id") == Some(pid) {
        return Err(std::io::Error::other("the old one is still there").into());
    }
    connection.get("k").await
}

#[tokio::test]
async fn a_server_that_dies_is_restarted_with_its_data() {
    let root = tempfile::tempdir().unwrap();
    let server = ManagedRedis::start(root.path(), Fsync::Everysec).await.unwrap();
    let watch = tokio::spawn(server.watcher().watch());
    let mut connection = connect(server.url()).await;
    let () = connection.set("k", "v").await.unwrap();
    let first = process_id(&mut connection).await;
    kill(first);
    let back = async {
        loop {
            // A connection may still reach the server that is dying.
            match read_from_another(server.url(), first).await {
                Ok(value) => return value,
                // Let the supervising task run: this test has one thread.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    assert_eq!(tokio::time::timeout(patience(), back).await.unwrap(), "v");
    server.stop().await.unwrap();
    watch.await.unwrap();
}

#[test]
fn a_server_without_a_handle_is_stopped() {
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(ManagedRedis::start(root.path(), Fsync::Everysec)).unwrap();
    assert!(root.path().join("redis.sock").exists());
    runtime.spawn(server.watcher().watch());
    drop(runtime);
    assert!(root.path().join("redis.sock").exists());
    drop(server);
    eventually!(!root.path().join("redis.sock").exists());
}

#[tokio::test]
async fn a_failed_start_reports_why_and_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let long = root.path().join("x".repeat(107));
    let error = ManagedRedis::start(&long, Fsync::Everysec).await.unwrap_err();
    assert!(matches!(error, RedisServerError::SocketPath { .. }), "{error}");
    assert!(error.to_string().contains("shorter redis.managed.dir"), "{error}");
    assert!(!long.exists());

    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = ManagedRedis::start(&file, Fsync::Everysec).await.unwrap_err();
    assert!(matches!(error, RedisServerError::Dir { .. }), "{error}");

    let broken = root.path().join("broken");
    fs::create_dir_all(broken.join("appendonlydir")).unwrap();
    fs::write(broken.join("appendonlydir/appendonly.aof.manifest"), "no manifest\n").unwrap();
    let error = ManagedRedis::start(&broken, Fsync::Everysec).await.unwrap_err();
    assert!(matches!(error, RedisServerError::Ended { .. }), "{error}");
    assert!(error.to_string().contains("AOF"), "the end of the log is shown: {error}");
    // The directory is free again.
    fs::remove_dir_all(broken.join("appendonlydir")).unwrap();
    ManagedRedis::start(&broken, Fsync::Everysec).await.unwrap().stop().await.unwrap();
}

/// Runs the daemon on a managed Redis with only this script as `redis-server` on its path.
fn run_with_program(script: Option<&str>) -> std::process::Output {
    let root = tempfile::tempdir().unwrap();
    let programs = root.path().join("programs");
    fs::create_dir(&programs).unwrap();
    if let Some(script) = script {
        let program = programs.join("redis-server");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let handler = "(module (func (export \"handle\") (param i32) (result i32) i32.const 0))";
    fs::write(root.path().join("ack.wat"), handler).unwrap();
    let manifest = root.path().join("duebox.toml");
    let text = "[redis]\nurl = \"managed\"\n[topics.t]\nhandler = \"ack.wat\"\n";
    fs::write(&manifest, text).unwrap();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_duebox"));
    daemon.env("PATH", &programs).args(["run", "--manifest"]).arg(&manifest);
    daemon.output().unwrap()
}

#[test]
fn a_missing_or_old_server_is_an_error_with_a_remedy() {
    let output = run_with_program(None);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("apt-get install redis-server"), "{stderr}");

    let output = run_with_program(Some("#!/bin/sh\necho 'Redis server v=6.0.16 sha=0'\n"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("6.0.16") && stderr.contains("packages.redis.io"), "{stderr}");
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused() {
    let server = RedisServer::with_args(&["--maxmemory-policy", "allkeys-lru"]);
    let mut connection = connect(&server.url()).await;
    let error = fitness::check(&mut connection, false).await.unwrap_err();
    assert!(matches!(&error, Unfit::Evicts { policy } if policy == "allkeys-lru"), "{error}");
    assert!(error.to_string().contains("CONFIG SET maxmemory-policy noeviction"), "{error}");
}

#[tokio::test]
async fn a_hosted_redis_without_config_is_still_checked() {
    let hidden = ["--rename-command", "CONFIG", ""];
    let fit = RedisServer::with_args(&[&hidden[..], &["--appendonly", "yes"]].concat());
    assert_eq!(fitness::check(&mut connect(&fit.url()).await, false).await.unwrap(), []);

    let unclear = RedisServer::with_args(&hidden);
    let warned = fitness::check(&mut connect(&unclear.url()).await, false).await.unwrap();
    assert_eq!(warned, [Warning::PersistenceUnknown]);

    let evicting =
        RedisServer::with_args(&[&hidden[..], &["--maxmemory-policy", "volatile-ttl"]].concat());
    let error = fitness::check(&mut connect(&evicting.url()).await, false).await.unwrap_err();
    assert!(matches!(error, Unfit::Evicts { .. }), "{error}");
}

#[tokio::test]
async fn a_redis_without_persistence_is_a_warning() {
    let none = RedisServer::start();
    let warned = fitness::check(&mut connect(&none.url()).await, false).await.unwrap();
    assert_eq!(warned, [Warning::NotPersistent]);
    let snapshots = RedisServer::with_args(&["--save", "3600 1"]);
    assert_eq!(fitness::check(&mut connect(&snapshots.url()).await, false).await.unwrap(), []);
}

#[tokio::test]
async fn a_replica_and_a_cluster_node_are_refused() {
    let master = RedisServer::start();
    let replica = RedisServer::with_args(&["--replicaof", &format!("127.0.0.1 {}", master.port())]);
    let error = fitness::check(&mut connect(&replica.url()).await, false).await.unwrap_err();
    assert!(
        matches!(&error, Unfit::Replica { master: at } if at.ends_with(&master.port().to_string()))
    );
    let node = RedisServer::with_args(&["--cluster-enabled", "yes"]);
    let error = fitness::check(&mut connect(&node.url()).await, false).await.unwrap_err();
    assert!(matches!(error, Unfit::Mode { .. }), "{error}");
}

#[tokio::test]
async fn a_user_who_may_not_ask_is_told_what_to_grant() {
    let server = RedisServer::start();
    server.cli(&["ACL", "SETUSER", "narrow", "on", ">secret", "~*", "+@all", "-info"]);
    let url = format!("redis://narrow:secret@127.0.0.1:{}/0", server.port());
    let error = fitness::check(&mut connect(&url).await, false).await.unwrap_err();
    assert!(matches!(error, Unfit::Info(_)) && error.to_string().contains("+info"), "{error}");
}
