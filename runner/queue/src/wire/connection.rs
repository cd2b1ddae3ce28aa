//! The connection to Redis: one, multiplexed, that comes back by itself.
//!
//! Every wait is bounded. A command that got no answer within [`ANSWER_MAX`] has failed, and whether
//! Redis carried it out is not known; verbs are made so that repeating them is safe.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, ErrorKind, IntoConnectionInfo, Pipeline, Value};

use crate::error::QueueError;
use crate::wire::latency::Traffic;

/// How long an answer may take. Shorter than a lease, longer than a Redis that forks to save.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long one attempt to connect may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the other side may be silent, or leave what was sent unconfirmed.
const PEER_SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often a silent other side is asked whether it is there.
const PEER_ASK_EVERY: Duration = Duration::from_secs(3);

/// Where Redis is and how to log in.
#[derive(Clone)]
pub struct ConnectionSettings {
    /// `redis://host:port/db` or `unix:///path/to.sock`.
    pub url: String,
    /// The password; beats one in the url.
    pub password: Option<String>,
}

impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("url", &self.public_url())
            .finish_non_exhaustive()
    }
}

impl ConnectionSettings {
    /// The address as it may be shown: what stands before an `@` is left out.
    pub fn public_url(&self) -> String {
        match (self.url.find("://"), self.url.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}…{}", &self.url[..scheme + 3], &self.url[at..])
            }
            _ => self.url.clone(),
        }
    }

    pub(crate) fn client(&self) -> Result<Client, QueueError> {
        let address = |error: redis::RedisError| QueueError::Address {
            url: self.public_url(),
            reason: error.to_string(),
        };
        let info = self.url.as_str().into_connection_info().map_err(address)?;
        let mut login = info.redis_settings().clone();
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        let info = info.set_redis_settings(login).set_tcp_settings(tcp_settings());
        Client::open(info).map_err(address)
    }
}

/// A pipeline leaves at once, and a peer that vanished without a word is noticed within some seconds.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(PEER_SILENCE_MAX).with_interval(PEER_ASK_EVERY);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(PEER_SILENCE_MAX);
    settings
}

#[derive(Clone)]
pub(crate) struct Connection {
    manager: ConnectionManager,
    settings: ConnectionSettings,
    traffic: Arc<Traffic>,
}

impl Connection {
    pub(crate) async fn open(settings: &ConnectionSettings) -> Result<Self, QueueError> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(ANSWER_MAX))
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(500));
        let client = settings.client()?;
        let refused = |error: redis::RedisError| {
            let (url, reason) = (settings.public_url(), error.to_string());
            match (error.kind(), error.code()) {
                (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
                    QueueError::Login { url, reason }
                }
                _ => QueueError::Unreachable { url, reason },
            }
        };
        let mut manager =
            ConnectionManager::new_with_config(client, config).await.map_err(refused)?;
        // Whoever gives no password to a server that wants one is refused at the first command.
        let () = redis::cmd("PING").query_async(&mut manager).await.map_err(refused)?;
        Ok(Self { manager, settings: settings.clone(), traffic: Arc::default() })
    }

    /// Sends commands in one write and answers each with its value or its error.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, QueueError> {
        let count = commands.len();
        let sent_at = Instant::now();
        let answers = self.manager.clone().send_packed_commands(commands, 0, count).await;
        self.traffic.saw(sent_at.elapsed(), answers.is_ok());
        let answers = answers?;
        if answers.len() == count {
            return Ok(answers);
        }
        Err(QueueError::Answer(format!("{} answers to {count} commands", answers.len())))
    }

    pub(crate) fn manager(&self) -> ConnectionManager {
        self.manager.clone()
    }

    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = |url: &str| ConnectionSettings { url: url.into(), password: None };
        assert_eq!(settings("redis://u:secret@h:1/0").public_url(), "redis://…@h:1/0");
        assert_eq!(settings("redis://h:1").public_url(), "redis://h:1");
        assert!(!format!("{:?}", settings("redis://:secret@h")).contains("secret"));
    }
}
