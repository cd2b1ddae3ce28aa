//! The server process in a data directory: started or adopted, watched, and shut down. It is either a child
//! of this process or an orphan of an earlier daemon.

use std::env;
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::data_dir::{DataDir, LOG, SOCKET};
use super::socket_client::{self, PingReply};
use super::{Fsync, RedisServerError};
use crate::redis_host::fitness::is_new_enough;

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const SILENCE_MAX: Duration = Duration::from_secs(30);
const LOADING_MAX: Duration = Duration::from_secs(15 * 60);
const LOADING_NOTE: Duration = Duration::from_secs(5);
const STOP_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
const ORPHAN_POLL: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct ServerProcess {
    dir: DataDir,
    fsync: Fsync,
    /// The process, if it is a child; `None` while it is down or adopted.
    child: Option<Child>,
    /// A process may be running that must end with this value.
    up: bool,
}

impl ServerProcess {
    pub(super) fn new(dir: DataDir, fsync: Fsync) -> Self {
        Self { dir, fsync, child: None, up: false }
    }

    /// Starts or adopts a server and waits until it is ready. Kills it on failure.
    pub(super) async fn bring_up(&mut self) -> Result<(), RedisServerError> {
        let adopted = socket_client::ping(&self.dir.socket()).await != PingReply::Absent;
        let brought = self.wait_until_ready().await;
        match &brought {
            Ok(()) if adopted && self.child.is_none() => self.adopt().await,
            Ok(()) => {}
            Err(_) => self.kill().await,
        }
        brought
    }

    /// Waits until the server has ended, and returns how.
    pub(super) async fn ended(&mut self) -> RedisServerError {
        let how = match &mut self.child {
            Some(child) => match child.wait().await {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            },
            None => {
                while socket_client::ping(&self.dir.socket()).await != PingReply::Absent {
                    sleep(ORPHAN_POLL).await;
                }
                "adopted, exit status unknown".to_owned()
            }
        };
        self.forget_process();
        self.error_ended(how)
    }

    /// Ends the server with `SHUTDOWN` and waits until it has ended.
    pub(super) async fn shut_down(&mut self) -> Result<(), RedisServerError> {
        if !self.up {
            return Ok(());
        }
        let why = match socket_client::ask(&self.dir.socket(), "SHUTDOWN", STOP_MAX).await {
            // The server closes the connection instead of replying: it shuts down.
            Ok(answer) if answer.is_empty() => match timeout(STOP_MAX, self.ended()).await {
                Ok(_) => return Ok(()),
                Err(_) => format!("it still runs after {} s", STOP_MAX.as_secs()),
            },
            Ok(refusal) => refusal,
            Err(error) if self.child.is_none() && error.kind() != io::ErrorKind::TimedOut => {
                self.forget_process();
                return Ok(());
            }
            Err(error) => error.to_string(),
        };
        self.kill().await;
        Err(RedisServerError::Stop { why })
    }

    async fn wait_until_ready(&mut self) -> Result<(), RedisServerError> {
        let (mut silent_since, mut loading_since) = (Instant::now(), None);
        let mut noted = Instant::now();
        loop {
            match socket_client::ping(&self.dir.socket()).await {
                PingReply::Ready => {
                    self.up = true;
                    return Ok(());
                }
                PingReply::Loading => {
                    silent_since = Instant::now();
                    let since = *loading_since.get_or_insert(silent_since);
                    if since.elapsed() > LOADING_MAX {
                        return Err(self.error_waited("has been loading its data", since));
                    }
                    if noted.elapsed() > LOADING_NOTE {
                        noted = Instant::now();
                        tracing::info!("the managed Redis is loading its data");
                    }
                }
                PingReply::Absent if self.child.is_none() => self.spawn().await?,
                PingReply::Absent | PingReply::Silent => {}
            }
            if let Some(status) = self.child_status() {
                self.forget_process();
                return Err(self.error_ended(status));
            }
            if silent_since.elapsed() > SILENCE_MAX {
                return Err(self.error_waited("has not replied", silent_since));
            }
            sleep(POLL).await;
        }
    }

    async fn spawn(&mut self) -> Result<(), RedisServerError> {
        let (program, version) = program().await?;
        let dir = self.dir.path();
        tracing::info!(server = program, version, dir = %dir.display(), "starting the managed Redis");
        let early = self.dir.open_log()?;
        let spawned = Command::new(program)
            // Names relative to the directory need no quoting in the server's settings.
            .current_dir(dir)
            .args(["--port", "0", "--unixsocket", SOCKET, "--unixsocketperm", "700"])
            .args(["--appendonly", "yes", "--appendfsync", self.fsync.name(), "--save", ""])
            .args(["--maxmemory", "0", "--maxmemory-policy", "noeviction"])
            .args(["--daemonize", "no", "--dir", ".", "--logfile", LOG])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(early)
            // A Ctrl-C on the terminal is for the daemon, which drains before it stops Redis.
            .process_group(0)
            .spawn();
        self.child = Some(spawned.map_err(|source| RedisServerError::Spawn { program, source })?);
        self.up = true;
        Ok(())
    }

    /// Applies the settings of this manifest to a server that was started with other ones.
    async fn adopt(&self) {
        tracing::info!("adopted the managed Redis that an earlier daemon left behind");
        let command = format!("CONFIG SET appendfsync {}", self.fsync.name());
        match socket_client::ask(&self.dir.socket(), &command, STOP_MAX).await {
            Ok(answer) if answer == "+OK" => {}
            Ok(refusal) => tracing::warn!("cannot change fsync of the adopted Redis: {refusal}"),
            Err(error) => tracing::warn!("cannot change fsync of the adopted Redis: {error}"),
        }
    }

    fn child_status(&mut self) -> Option<String> {
        match self.child.as_mut()?.try_wait() {
            Ok(status) => status.map(|status| status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    async fn kill(&mut self) {
        if let Some(child) = &mut self.child
            && let Err(error) = child.kill().await
        {
            tracing::warn!("cannot kill the managed Redis: {error}");
        }
        self.forget_process();
    }

    fn forget_process(&mut self) {
        self.child = None;
        self.up = false;
    }

    fn error_ended(&self, how: String) -> RedisServerError {
        RedisServerError::Ended { how, log: self.dir.log(), tail: self.dir.log_tail() }
    }

    fn error_waited(&self, what: &'static str, since: Instant) -> RedisServerError {
        RedisServerError::Waited {
            what,
            waited_s: since.elapsed().as_secs(),
            log: self.dir.log(),
            tail: self.dir.log_tail(),
        }
    }
}

/// Whether a server program is on the search path.
pub fn is_installed() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| PROGRAMS.iter().any(|program| dir.join(program).is_file()))
}

/// The first server program that is installed and new enough, with its version.
async fn program() -> Result<(&'static str, String), RedisServerError> {
    let mut refused = RedisServerError::Missing;
    for program in PROGRAMS {
        let mut ask = Command::new(program);
        ask.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let output = match timeout(STOP_MAX, ask.output()).await {
            Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => continue,
            Ok(Err(source)) => return Err(RedisServerError::Spawn { program, source }),
            Err(_) => String::new(),
        };
        let version = output.split_whitespace().find_map(|word| word.strip_prefix("v="));
        let found = version.unwrap_or_default().to_owned();
        if is_new_enough(&found) {
            return Ok((program, found));
        }
        refused = RedisServerError::TooOld { program, found };
    }
    Err(refused)
}

impl Drop for ServerProcess {
    /// Ends the server after an abandoned start or with the runtime. `SHUTDOWN` still writes its file; a
    /// server that does not listen is killed.
    fn drop(&mut self) {
        if !self.up {
            return;
        }
        let asked = socket_client::ask_blocking(&self.dir.socket(), "SHUTDOWN", STOP_MAX);
        if asked.is_ok_and(|answer| answer.is_empty()) {
            return;
        }
        if let Some(child) = &mut self.child {
            // Fails only if the process has already ended.
            drop(child.start_kill());
        }
    }
}
