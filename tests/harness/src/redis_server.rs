//! A real redis-server for one test binary or one test: its own port and directory, no persistence
//! unless asked for, killed when the value is dropped.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::input::output_with;
use crate::port::free_port;
use crate::{CertificateFiles, patience, signal};

const STARTS_MAX: u32 = 5;
/// The first words of Redis' error replies, which redis-cli prints like other replies.
const ERRORS: [&str; 8] =
    ["ERR ", "WRONGTYPE ", "EXECABORT ", "OOM ", "MISCONF ", "READONLY ", "NOAUTH ", "NOPERM "];

/// A redis-server on its own loopback port. Dropping it kills the process and removes its data.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    /// The port for TLS, if the server has a certificate.
    tls_port: Option<u16>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    /// What a sentinel is told; `None` for a server that holds data.
    sentinel: Option<String>,
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
        Self::launch(args, &[], false)
    }

    /// The same in this environment, such as one that preloads a library.
    ///
    /// # Panics
    /// As [`Self::with_args`].
    pub fn with_env(args: &[&str], env: &[(&str, String)]) -> Self {
        Self::launch(args, env, false)
    }

    /// Starts a server that also takes TLS, on a port of its own. It shows this certificate, and demands none of
    /// its clients unless the further arguments say so.
    ///
    /// # Panics
    /// As [`Self::with_args`].
    pub fn with_tls(authority: &Path, shown: &CertificateFiles, args: &[&str]) -> Self {
        let tls = shown.server_args(authority);
        let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
        Self::launch(&[&tls[..], args].concat(), &[], true)
    }

    /// Starts a sentinel with these lines of configuration and these arguments.
    pub(crate) fn sentinel(directives: &str, args: &[&str], takes_tls: bool) -> Self {
        Self::launch_as(args, &[], takes_tls, Some(directives))
    }

    fn launch(args: &[&str], env: &[(&str, String)], takes_tls: bool) -> Self {
        Self::launch_as(args, env, takes_tls, None)
    }

    fn launch_as(
        args: &[&str],
        env: &[(&str, String)],
        takes_tls: bool,
        sentinel: Option<&str>,
    ) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("duebox-redis-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot create a directory for redis-server: {error}"));
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let sentinel = sentinel.map(str::to_owned);
        let mut server = Self { port: 0, tls_port: None, args, env, sentinel, dir, process: None };
        // Another process may take the port before the server binds it; then choose another.
        for _ in 0..STARTS_MAX {
            server.port = free_port();
            server.tls_port = takes_tls.then(free_port);
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

    /// The port for TLS.
    ///
    /// # Panics
    /// If the server takes no TLS.
    pub fn tls_port(&self) -> u16 {
        match self.tls_port {
            Some(port) => port,
            None => panic!("redis-server on port {} takes no TLS", self.port),
        }
    }

    /// The server's URL for TLS, by the name `localhost`.
    ///
    /// # Panics
    /// If the server takes no TLS.
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}/0", self.tls_port())
    }

    /// The port for TLS if the server takes it, or the plain one.
    pub(crate) fn own_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// The loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's working directory with its persisted data and its log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Whether it has been started and not stopped.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
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

    /// Has this user, too, when it is started again.
    pub(crate) fn keep_user(&mut self, name: &str, rules: &[String]) {
        self.args.extend(["--user".to_owned(), name.to_owned()]);
        self.args.extend_from_slice(rules);
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
        match self.try_cli(args) {
            Ok(printed) => printed,
            Err(failed) => panic!("redis-cli {args:?}: {failed}"),
        }
    }

    /// The same, with what went wrong.
    pub(crate) fn try_cli(&self, args: &[&str]) -> Result<String, String> {
        let output = run_first("cli", |command| {
            self.log_in(command).args(["-e", "-p", &self.port.to_string()]).args(args).output()
        });
        let printed = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(printed) } else { Err(format!("{printed} {failed}")) }
    }

    /// Runs commands with `redis-cli`, one per line, and returns the lines of its output.
    ///
    /// # Panics
    /// If redis-cli is not installed or the server replies with an error.
    pub fn pipe(&self, commands: &str) -> Vec<String> {
        let output = run_first("cli", |command| {
            let client = self.log_in(command).args(["-e", "-p", &self.port.to_string()]);
            output_with(client, commands.as_bytes())
        });
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        // In this mode redis-cli exits with 0 even after an error reply.
        let refused = printed.lines().find(|line| ERRORS.iter().any(|word| line.starts_with(word)));
        assert!(output.status.success(), "redis-cli: {printed} {failed}");
        assert!(refused.is_none(), "redis-cli: {refused:?} in {printed}");
        printed.lines().map(str::to_owned).collect()
    }

    /// Gives redis-cli the password of the server, if it has one.
    fn log_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let mut pairs = self.args.windows(2);
        match pairs.find(|pair| pair[0] == "--requirepass") {
            Some(pair) => command.env("REDISCLI_AUTH", &pair[1]),
            None => command,
        }
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
        // A sentinel writes what it finds out into its file.
        let file = self.dir().join("sentinel.conf");
        if let Some(directives) = &self.sentinel
            && !file.exists()
        {
            fs::write(&file, directives)?;
        }
        let child = run_first("server", |command| {
            if self.sentinel.is_some() {
                command.arg(&file).arg("--sentinel");
            }
            command
                .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
                .args(["--logfile", "redis.log"])
                .arg("--dir")
                .arg(self.dir())
                .args(
                    self.tls_port
                        .iter()
                        .flat_map(|port| ["--tls-port".to_owned(), port.to_string()]),
                )
                .args(&self.args)
                .envs(self.env.iter().cloned())
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

/// Runs the server or its client (`kind`): of the folder in `DUEBOX_TEST_SERVER`, or the first that is installed.
fn run_first<T>(kind: &str, run: impl Fn(&mut Command) -> io::Result<T>) -> T {
    let folder = env::var_os("DUEBOX_TEST_SERVER").map(PathBuf::from).unwrap_or_default();
    for program in [format!("redis-{kind}"), format!("valkey-{kind}")] {
        let program = folder.join(program);
        match run(&mut Command::new(&program)) {
            Ok(done) => return done,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => panic!("cannot run {}: {error}", program.display()),
        }
    }
    panic!("neither redis-{kind} nor valkey-{kind} is there; run: apt-get install redis-server")
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
