//! Errors of the managed Redis, each with the remedy.

use std::io;
use std::path::PathBuf;

/// Why the managed Redis could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RedisServerError {
    /// The data directory cannot be created or used.
    #[error(
        "cannot use {path} for the managed Redis: {source}; set redis.managed.dir to a directory that this user can write"
    )]
    Dir {
        /// The directory or the file in it.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The path of the socket is too long.
    #[error(
        "the socket path {path} of the managed Redis has {len} bytes; the system allows {max}: choose a shorter redis.managed.dir",
        max = super::data_dir::SOCKET_PATH_MAX
    )]
    SocketPath {
        /// The socket's path.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
    },
    /// Another daemon has locked the directory.
    #[error(
        "another daemon runs the managed Redis in {dir}; stop it, or choose another redis.managed.dir"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// No server program is installed.
    #[error(
        "redis.url is \"managed\", but neither redis-server nor valkey-server is installed; install one: apt-get install redis-server"
    )]
    Missing,
    /// The installed program is too old.
    #[error(
        "redis.url is \"managed\", but {program} is version {found:?}; 7.0 or newer is needed: install redis-server from https://packages.redis.io, or valkey-server"
    )]
    TooOld {
        /// The program's name.
        program: &'static str,
        /// The reported version.
        found: String,
    },
    /// The server program cannot be run.
    #[error("cannot run {program}: {source}; reinstall it: apt-get install --reinstall {program}")]
    Spawn {
        /// The program's name.
        program: &'static str,
        /// The system error.
        source: io::Error,
    },
    /// The server ended.
    #[error("the managed Redis ended ({how}); see {log}, which ends:\n{tail}")]
    Ended {
        /// Its exit status, if known.
        how: String,
        /// Its log file.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// The server did not reply, or did not finish loading.
    #[error(
        "the managed Redis {what} for {waited_s} s; see {log}, which ends:\n{tail}\nif another redis-server uses the directory, stop it"
    )]
    Waited {
        /// What it did: no reply, or loading.
        what: &'static str,
        /// How long, in seconds.
        waited_s: u64,
        /// Its log file.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// The server did not end after SHUTDOWN.
    #[error("the managed Redis was killed: {why}; acknowledged writes are in its file")]
    Stop {
        /// Its reply, or that it kept running.
        why: String,
    },
}
