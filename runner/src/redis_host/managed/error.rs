//! What stands between a daemon and its managed Redis, each with the remedy.

use std::io;
use std::path::PathBuf;

/// Why the managed Redis could not be started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum RedisServerError {
    /// The data directory cannot be made or used.
    #[error(
        "cannot use {path} for the managed Redis: {source}; set redis.managed.dir to a directory that this user may write"
    )]
    Dir {
        /// The directory or the file in it.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The path of the socket does not fit into a socket address.
    #[error(
        "the socket {path} of the managed Redis has a path of {len} bytes, and the system allows {max}; choose a shorter redis.managed.dir",
        max = super::data_dir::SOCKET_PATH_MAX
    )]
    SocketPath {
        /// The socket's path.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
    },
    /// Another daemon holds the directory.
    #[error(
        "another daemon runs the managed Redis in {dir}; stop that one, or choose another redis.managed.dir"
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
    /// What is installed is too old.
    #[error(
        "redis.url is \"managed\", and {program} is version {found:?}; 7.0 or newer is needed: install redis-server from https://packages.redis.io, or valkey-server"
    )]
    TooOld {
        /// The program's name.
        program: &'static str,
        /// The version it reports.
        found: String,
    },
    /// The server program cannot be run.
    #[error("cannot run {program}: {source}; reinstall it: apt-get install --reinstall {program}")]
    Spawn {
        /// The program's name.
        program: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The server ended.
    #[error("the managed Redis ended ({how}); see {log}, which ends:\n{tail}")]
    Ended {
        /// Its exit status, as far as it is known.
        how: String,
        /// Its log file.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// The server does not answer, or loads for ever.
    #[error(
        "the managed Redis {what} for {waited_s} s; see {log}, which ends:\n{tail}\nif a stray redis-server holds the directory, stop it"
    )]
    Waited {
        /// What it did: kept silent, or loaded.
        what: &'static str,
        /// How long, in seconds.
        waited_s: u64,
        /// Its log file.
        log: PathBuf,
        /// The end of its log.
        tail: String,
    },
    /// The server did not end when it should.
    #[error("the managed Redis did not stop by itself: {why}; what it acknowledged is in its file")]
    Stop {
        /// What it said, or that it kept on running.
        why: String,
    },
}
