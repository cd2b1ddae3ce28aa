//! Errors between this process and Redis. A refused job is a value, not an error.

mod tls_problem;

use std::fmt;

pub use self::tls_problem::TlsProblem;

const URL_FORMS: &str = "write redis://[user:password@]host[:port][/database], the same with rediss:// for TLS, \
     redis-sentinel://[user:password@]host[:port],host[:port]/master[/database], \
     redis-cluster://[user:password@]host[:port],host[:port], or unix:///path/to.sock";

/// Why a call failed. Its text states what failed, on what, and the remedy where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueError {
    /// The address is malformed.
    Address {
        /// The address, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Redis is unreachable.
    Unreachable {
        /// The address, without its password.
        url: String,
        /// The reason of the connection.
        reason: String,
    },
    /// No sentinel of the address names a primary.
    NoSentinel {
        /// The address, without its password.
        url: String,
        /// The reason of each sentinel.
        reason: String,
    },
    /// The sentinels watch no master of this name.
    NoSuchMaster {
        /// The address, without its password.
        url: String,
        /// The name of the address.
        name: String,
        /// The names that one of them knows.
        masters: Vec<String>,
    },
    /// The cluster of the address cannot be used.
    Cluster {
        /// The address, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address of one server leads to a server of a cluster.
    IsClusterNode {
        /// The address, without its password.
        url: String,
    },
    /// The address of one server leads to a sentinel.
    IsSentinel {
        /// The address, without its password.
        url: String,
        /// The names of the masters that it watches.
        masters: Vec<String>,
    },
    /// Redis closed a connection without TLS before it answered, as a TLS port does.
    ClosedWithoutReply {
        /// The address, without its password.
        url: String,
    },
    /// TLS to Redis fails.
    Tls {
        /// The address, without its password.
        url: String,
        /// The check that failed.
        problem: TlsProblem,
    },
    /// The file of the password cannot be used.
    PasswordFile {
        /// The file and what is wrong with it.
        reason: String,
    },
    /// Redis refused the login.
    Login {
        /// The address, without its password.
        url: String,
        /// The reason of Redis.
        reason: String,
    },
    /// The user of the login may not run a command (ACL).
    NotPermitted {
        /// The user.
        user: String,
        /// What is missing.
        reason: String,
    },
    /// The layout in Redis has a version that this program does not know.
    Layout {
        /// The stored version.
        stored: String,
        /// The newest version that this program knows.
        known: u64,
    },
    /// The server cannot keep the durability of the settings.
    Durability {
        /// The durability, as the manifest names it.
        wanted: &'static str,
        /// What the server lacks.
        reason: String,
    },
    /// A push was carried out, and does not have the copies that the durability demands.
    Unconfirmed(String),
    /// A command got no reply: it may or may not have been carried out.
    NoReply(String),
    /// Redis refused a command; nothing has changed.
    Refused(String),
    /// Redis, or a proxy in front of it, does not know a command; nothing has changed.
    Unsupported(String),
    /// A key holds what the queue cannot use, such as a value of a wrong type; nothing has changed.
    BadData(String),
    /// A script refused its arguments: the caller passed a value out of range.
    BadCall(String),
    /// A reply of an unexpected shape.
    BadReply(String),
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem())?;
        match self.remedy() {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for QueueError {}

impl QueueError {
    /// What failed, on what.
    pub fn problem(&self) -> String {
        match self {
            Self::Address { url, reason } => format!("{url} is not a Redis address: {reason}"),
            Self::Unreachable { url, reason } => {
                format!("Redis at {url} cannot be reached: {reason}")
            }
            Self::NoSentinel { url, reason } => {
                format!("no sentinel of {url} names a primary: {reason}")
            }
            Self::NoSuchMaster { url, name, masters } => {
                let known = if masters.is_empty() { "none".to_owned() } else { masters.join(", ") };
                format!("the sentinels of {url} watch no master {name:?}; they watch: {known}")
            }
            Self::Cluster { url, reason } => {
                format!("the cluster at {url} cannot be used: {reason}")
            }
            Self::IsClusterNode { url } => {
                format!("{url} is a server of a cluster, which has a part of the keys")
            }
            Self::IsSentinel { url, masters } => {
                let known =
                    if masters.is_empty() { "nothing".to_owned() } else { masters.join(", ") };
                format!("{url} is a sentinel, which holds no jobs; it watches: {known}")
            }
            Self::ClosedWithoutReply { url } => {
                format!("Redis at {url} closed the connection before it answered")
            }
            Self::Tls { url, problem } => format!("TLS to Redis at {url} fails: {problem}"),
            Self::PasswordFile { reason } => format!("the password of Redis: {reason}"),
            Self::Login { url, reason } => format!("Redis at {url} refuses the login: {reason}"),
            Self::NotPermitted { user, reason } => {
                format!("Redis does not permit user {user:?} what this needs: {reason}")
            }
            Self::Layout { stored, known } => format!(
                "the queue in Redis has layout {stored:?}; this program knows layouts up to {known}"
            ),
            Self::Durability { wanted, reason } => {
                format!("redis.durability = {wanted:?} cannot be kept: {reason}")
            }
            Self::Unconfirmed(reason) => {
                format!("the jobs are stored, but not as redis.durability demands: {reason}")
            }
            Self::NoReply(reason) => format!("Redis did not reply: {reason}"),
            Self::Refused(reason) => format!("Redis refused: {reason}"),
            Self::Unsupported(reason) => format!("Redis does not offer a command: {reason}"),
            Self::BadData(reason) => format!("Redis refused what a key holds: {reason}"),
            Self::BadCall(reason) => format!("the queue refused the call: {reason}"),
            Self::BadReply(reason) => format!("unexpected reply from Redis: {reason}"),
        }
    }

    /// What to do about it, where that is known.
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Address { .. } => Some(URL_FORMS),
            Self::Unreachable { .. } => Some("start it, or correct redis.url"),
            Self::NoSentinel { .. } => Some("start one, or correct the sentinels in redis.url"),
            Self::NoSuchMaster { .. } => Some("write one of these at the end of redis.url"),
            Self::Cluster { .. } => Some(
                "repair it (redis-cli --cluster check), or write redis:// if redis.url is a single server",
            ),
            Self::IsClusterNode { .. } => Some("write redis-cluster://host:port,host:port"),
            Self::IsSentinel { .. } => Some("write redis-sentinel://host:port/master"),
            Self::ClosedWithoutReply { .. } => Some("write rediss:// if that port takes TLS"),
            Self::Tls { problem, .. } => Some(problem.remedy()),
            Self::PasswordFile { .. } => {
                Some("set redis.password to a file that contains only the password")
            }
            Self::Login { .. } => Some("correct the user in redis.url and redis.password"),
            Self::NotPermitted { .. } => Some(
                "grant it with ACL SETUSER; https://github.com/duebox/duebox/blob/main/docs/guide/redis.md has the whole line",
            ),
            Self::Layout { .. } => Some(
                "run the version of duebox that wrote it, or a newer one, or restore a backup from before the upgrade",
            ),
            Self::Durability { .. } => Some(
                "run Redis 7.2 or newer with appendonly yes, or set redis.durability to \"replica\" or \"async\"",
            ),
            Self::Unconfirmed(_) => Some(
                "push them again under the same ids: nothing is stored twice; and check the replicas and the disk of Redis",
            ),
            Self::Unsupported(_) => Some(
                "connect to a Redis 7.0 or newer itself, without a proxy or rename-command that hides commands",
            ),
            Self::BadData(_) => Some("find and repair it with: duebox doctor"),
            Self::NoReply(_) | Self::Refused(_) | Self::BadCall(_) | Self::BadReply(_) => None,
        }
    }

    /// True if the same call fails the same way every time.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::BadCall(_))
    }

    /// True if Redis answered and did not carry out the call. Calls on other keys may succeed.
    pub fn is_refusal(&self) -> bool {
        let is_of_server = matches!(
            self,
            Self::Refused(_)
                | Self::Unsupported(_)
                | Self::NotPermitted { .. }
                | Self::IsClusterNode { .. }
        );
        is_of_server || self.is_of_topic()
    }

    /// True if the error comes from what the keys of one topic hold. Redis serves other topics.
    pub fn is_of_topic(&self) -> bool {
        matches!(self, Self::BadData(_) | Self::BadCall(_) | Self::BadReply(_))
    }

    /// True if there is no usable connection to Redis.
    pub fn is_disconnected(&self) -> bool {
        !self.is_refusal() && !self.is_final() && !matches!(self, Self::Unconfirmed(_))
    }

    /// What this error means for a call that was repeated: a refused repetition does not tell what became
    /// of the first try.
    pub(crate) fn of_repetition(self) -> Self {
        match self {
            Self::Refused(reason) | Self::Unsupported(reason) | Self::BadData(reason) => {
                Self::NoReply(format!(
                    "the reply was lost, and the repeated call was refused: {reason}"
                ))
            }
            other => other,
        }
    }

    /// What an error of the redis crate means.
    pub(crate) fn of_redis(error: redis::RedisError) -> Self {
        if error.is_io_error() || error.is_unrecoverable_error() {
            return Self::NoReply(error.to_string());
        }
        match error.detail() {
            Some(detail) if error.code() == Some("DUEBOX") => Self::BadCall(detail.to_owned()),
            Some(detail) if error.code() == Some("ERR") && is_unknown_command(detail) => {
                Self::Unsupported(detail.to_owned())
            }
            // Errors of the server as a whole have codes of their own, for example OOM and READONLY.
            _ if matches!(error.code(), Some("WRONGTYPE" | "ERR")) => {
                Self::BadData(error.to_string())
            }
            _ => Self::Refused(error.to_string()),
        }
    }
}

/// Whether an error tells that the server has no such command: it was renamed, or a proxy does not pass it on.
fn is_unknown_command(detail: &str) -> bool {
    const BEGINNINGS: [&str; 5] = [
        "unknown command",
        "unknown subcommand",
        "unknown redis command",
        "unsupported command",
        "this redis command is not allowed",
    ];
    let detail = detail.to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| detail.starts_with(beginning))
}

/// Results of one call for each of several topics. An error that comes from one topic stays with it; any
/// other fails the call as a whole.
pub(crate) fn for_each_topic<T>(
    results: impl IntoIterator<Item = Result<T, QueueError>>,
) -> Result<Vec<Result<T, QueueError>>, QueueError> {
    let keep = |result: Result<T, QueueError>| match result {
        Err(error) if !error.is_of_topic() => Err(error),
        result => Ok(result),
    };
    results.into_iter().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_repetition_tells_nothing_of_the_first_try() {
        let error = QueueError::Refused("OOM".to_owned()).of_repetition();
        assert!(matches!(&error, QueueError::NoReply(why) if why.contains("OOM")), "{error}");
    }

    #[test]
    fn an_unknown_command_is_no_fault_of_a_topic() {
        let of = |line: &str| {
            let error = redis::parse_redis_value(line.as_bytes()).unwrap().extract_error();
            QueueError::of_redis(error.unwrap_err())
        };
        for line in [
            "-ERR unknown command 'EVALSHA', with args beginning with: 'x' \r\n",
            "-ERR Unknown Redis command called from script script: x, on @user_script:3.\r\n",
            "-ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.\r\n",
        ] {
            let error = of(line);
            assert!(matches!(error, QueueError::Unsupported(_)), "{error:?}");
            assert!(error.is_refusal() && !error.is_of_topic() && error.remedy().is_some());
        }
        assert!(matches!(of("-ERR value is not an integer\r\n"), QueueError::BadData(_)));
    }

    #[test]
    fn the_text_is_the_problem_and_the_remedy() {
        let (url, problem) = ("rediss://h".to_owned(), TlsProblem::NotYetValid);
        let error = QueueError::Tls { url, problem };
        assert_eq!(
            error.to_string(),
            "TLS to Redis at rediss://h fails: its certificate is not valid yet; correct the clock of this machine \
             or of the one that issued the certificate"
        );
        assert_eq!(QueueError::BadReply("x".into()).to_string(), "unexpected reply from Redis: x");
    }
}
