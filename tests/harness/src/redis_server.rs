//! A real redis-server for one test binary or one test: its own port and directory, no persistence
//! unless asked for, killed when the value is dropped.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{patience, signal};

const STARTS_MAX: u32 = 5;
/// The first words of Redis' error replies, which redis-cli prints like other replies.
const ERRORS: [&str; 8] =
    ["ERR ", "WRONGTYPE ", "EXECABORT ", "OOM ", "MISCONF ", "READONLY ", "NOAUTH ", "NOPERM "];

/// A redis-server on its own loopback port. Dropping it kills the process and removes its data.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    args: Vec<String>,
    dir: TempDir,
    process: Option<Child>,
}

impl RedisServer {
    /// Starts a server without persistence and waits until it replies.
    ///
    /// # Panics
    /// If redis-server is not installed or does not reply within [`patience`].
    pub fn start() -> Self {
        Self::with_args(&[])
    }

    /// Starts a server with further arguments, such as `["--appendonly", "yes"]`. They override the
    /// harness's own.
    ///
    /// # Panics
    /// If redis-server is not installed, refuses the arguments, or does not reply.
    pub fn with_args(args: &[&str]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("duebox-redis-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot create a directory for redis-server: {error}"));
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut server = Self { port: 0, args, dir, process: None };
        // Another process may take the port before the server binds it; then choose another.
        for _ in 0..STARTS_MAX {
            server.port = free_port();
            if server.spawn().is_ok() {
                return server;
            }
        }
        panic!("redis-server did not start in {STARTS_MAX} tries; its log:\n{}", server.log());
    }

    /// The server's URL for the redis crate and the manifest.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's working directory with its persisted data and its log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Kills the server if it runs, as a power cut would.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Both fail only if the process has already exited.
            drop(process.kill());
            drop(process.wait());
        }
    }

    /// Kills the server if it runs, and starts it again on the same port and directory.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        self.stop();
        if let Err(error) = self.spawn() {
            panic!("redis-server did not restart: {error}; its log:\n{}", self.log());
        }
    }

    /// Freezes the server (SIGSTOP): connections stay open without replies.
    ///
    /// # Panics
    /// If the server does not run.
    pub fn pause(&self) {
        signal::send_signal("STOP", self.pid());
    }

    /// Resumes a frozen server.
    ///
    /// # Panics
    /// If the server does not run.
    pub fn resume(&self) {
        signal::send_signal("CONT", self.pid());
    }

    /// Runs one command with `redis-cli` and returns its output.
    ///
    /// # Panics
    /// If redis-cli is not installed or the server replies with an error.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = run_first(["redis-cli", "valkey-cli"], |command| {
            command.args(["-e", "-p", &self.port.to_string()]).args(args).output()
        });
        let printed = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "redis-cli {args:?}: {printed} {failed}");
        printed
    }

    /// Runs commands with `redis-cli`, one per line, and returns the lines of its output.
    ///
    /// # Panics
    /// If redis-cli is not installed or the server replies with an error.
    pub fn pipe(&self, commands: &str) -> Vec<String> {
        let mut child = run_first(["redis-cli", "valkey-cli"], |command| {
            command
                .args(["-e", "-p", &self.port.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
        });
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // Writes on another thread, because a full pipe of replies would block the commands.
            scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(commands.as_bytes())));
            child.wait_with_output()
        });
        let output = output.unwrap_or_else(|error| panic!("redis-cli gave no output: {error}"));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        // In this mode redis-cli exits with 0 even after an error reply.
        let refused = printed.lines().find(|line| ERRORS.iter().any(|word| line.starts_with(word)));
        assert!(output.status.success(), "redis-cli: {printed} {failed}");
        assert!(refused.is_none(), "redis-cli: {refused:?} in {printed}");
        printed.lines().map(str::to_owned).collect()
    }

    fn pid(&self) -> u32 {
        match &self.process {
            Some(process) => process.id(),
            None => panic!("redis-server on port {} is not running", self.port),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir().join("redis.log")).unwrap_or_default()
    }

    fn spawn(&mut self) -> io::Result<()> {
        let child = run_first(["redis-server", "valkey-server"], |command| {
            command
                .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                .args(["--logfile", "redis.log"])
                .arg("--dir")
                .arg(self.dir())
                .args(&self.args)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        });
        self.process = Some(child);
        self.wait_until_it_answers()
    }

    fn wait_until_it_answers(&mut self) -> io::Result<()> {
        let started = Instant::now();
        while !answers(self.port) {
            if let Some(process) = &mut self.process
                && let Some(status) = process.try_wait()?
            {
                self.process = None;
                return Err(io::Error::other(format!("redis-server exited with {status}")));
            }
            assert!(
                started.elapsed() < patience(),
                "redis-server on port {} does not reply; its log:\n{}",
                self.port,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .unwrap_or_else(|error| panic!("no free loopback port: {error}"))
        .port()
}

/// Whether a server replies to PING and has finished loading.
fn answers(port: u16) -> bool {
    let ping = || -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let timeout = Duration::from_secs(1);
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(b"PING\r\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    // A server with a password replies too, with an error.
    ping().is_ok_and(|line| line.starts_with("+PONG") || line.starts_with("-NOAUTH"))
}

/// Runs the first of these programs that is installed.
fn run_first<T>(programs: [&str; 2], run: impl Fn(&mut Command) -> io::Result<T>) -> T {
    for program in programs {
        match run(&mut Command::new(program)) {
            Ok(done) => return done,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => panic!("cannot run {program}: {error}"),
        }
    }
    panic!("neither {} is installed; run: apt-get install redis-server", programs.join(" nor "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually;

    #[test]
    fn a_restart_keeps_the_port_and_the_persisted_data() {
        let mut server =
            RedisServer::with_args(&["--appendonly", "yes", "--appendfsync", "always"]);
        let port = server.port();
        assert_eq!(server.cli(&["SET", "k", "v"]), "OK");
        server.restart();
        assert_eq!(server.port(), port);
        assert_eq!(server.cli(&["GET", "k"]), "v");
    }

    #[test]
    fn commands_are_piped_and_errors_are_reported() {
        let server = RedisServer::start();
        assert_eq!(server.pipe("MULTI\nSET k 'v w'\nGET k\nEXEC\n")[3..], ["OK", "v w"]);
        assert!(std::panic::catch_unwind(|| server.pipe("NONSENSE\n")).is_err());
    }

    #[test]
    fn a_paused_server_replies_after_it_resumes() {
        let server = RedisServer::start();
        server.pause();
        assert!(!answers(server.port()));
        server.resume();
        eventually("the server replies again", || answers(server.port()));
    }

    #[test]
    fn dropping_kills_the_process_and_two_servers_are_separate() {
        let (first, second) = (RedisServer::start(), RedisServer::start());
        let port = first.port();
        assert_ne!(port, second.port());
        let dir = first.dir().to_owned();
        drop(first);
        assert!(!answers(port));
        assert!(!dir.exists());
        assert!(answers(second.port()));
    }
}
