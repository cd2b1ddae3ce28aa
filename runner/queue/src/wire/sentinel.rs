//! Redis Sentinel: where the primary is, and that it is another one than before.
//!
//! Sentinels may disagree while a failover runs or the network is split. The one with the newest configuration is
//! right, as among themselves. A sentinel gets no login unless it demands one.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, pending};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Pipeline, RedisConnectionInfo, RedisError, RedisResult};
use redis::{ServerErrorKind, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::QueueError;
use crate::wire::abort_on_drop::AbortOnDrop;
use crate::wire::address::{NodeAddress, Sentinels};
use crate::wire::reply::text;
use crate::wire::settings::{ConnectionSettings, is_refused_login};
use crate::wire::stream::Stream;

/// How long the other sentinels may take after the first one has named a primary.
const OTHERS_MAX: Duration = Duration::from_millis(250);
/// The longest wait for a sentinel.
const REPLY_MAX: Duration = Duration::from_secs(2);
/// The wait before a subscription to a sentinel is tried again.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
/// The channel on which a sentinel reports that the primary is another one.
const SWITCHES: &str = "+switch-master";

/// What one sentinel says.
pub(super) enum View {
    Primary(Primary),
    /// It does not watch a master of this name, but these.
    NotWatched(Vec<String>),
}

/// The primary, as one sentinel sees it.
#[derive(Default)]
pub(super) struct Primary {
    pub(super) host: String,
    pub(super) port: u16,
    /// The version of the configuration. It grows with each failover.
    pub(super) epoch: u64,
    pub(super) replicas: u64,
    /// How many sentinels must agree that the primary is down.
    pub(super) quorum: u64,
}

/// The address of the primary.
pub(super) async fn locate(
    sentinels: &Sentinels,
    settings: &ConnectionSettings,
    deadline: Instant,
) -> Result<NodeAddress, QueueError> {
    let (mut newest, mut watched, mut failures) = (None, None, Vec::new());
    for (node, view) in ask_all(sentinels, settings, deadline, Some(OTHERS_MAX)).await {
        match view {
            Ok(View::Primary(primary)) => {
                let is_newer = |known: &Primary| primary.epoch > known.epoch;
                if newest.as_ref().is_none_or(is_newer) {
                    newest = Some(primary);
                }
            }
            Ok(View::NotWatched(masters)) => watched = Some(masters),
            Err(error) => failures.push((node, error)),
        }
    }
    if let Some(Primary { host, port, .. }) = newest {
        let uses_tls = sentinels.nodes.first().is_some_and(NodeAddress::uses_tls);
        let refused = |reason| QueueError::Address { url: settings.public_url(), reason };
        return settings.node_addresses().node(&host, port, uses_tls).map_err(refused);
    }
    let url = settings.public_url();
    if let Some(masters) = watched {
        return Err(QueueError::NoSuchMaster { url, name: sentinels.master.clone(), masters });
    }
    Err(unreachable(url, failures))
}

/// What every sentinel says, in the order of the replies. Ends at the deadline, or so long after the first one has
/// named a primary.
pub(super) async fn ask_all<'s>(
    sentinels: &'s Sentinels,
    settings: &ConnectionSettings,
    deadline: Instant,
    others_max: Option<Duration>,
) -> Vec<(&'s NodeAddress, Result<View, QueueError>)> {
    let mut deadline = deadline.min(Instant::now() + REPLY_MAX);
    let mut asked = FuturesUnordered::new();
    for node in &sentinels.nodes {
        let view = ask(node, &sentinels.master, settings, deadline);
        asked.push(view.map(move |view| (node, view)).boxed());
    }
    let mut views = Vec::with_capacity(sentinels.nodes.len());
    while let Ok(Some((node, view))) = timeout_at(deadline, asked.next()).await {
        if let (Ok(View::Primary(_)), Some(others_max)) = (&view, others_max) {
            deadline = deadline.min(Instant::now() + others_max);
        }
        views.push((node, view));
    }
    views
}

/// Returns when the sentinels name another primary than this one.
pub(super) async fn wait_for_new_primary(
    sentinels: Option<&Sentinels>,
    settings: &ConnectionSettings,
    primary: &NodeAddress,
) {
    let Some(sentinels) = sentinels else { return pending().await };
    let news = Notify::new();
    let listen = sentinels.nodes.iter().map(|node| listen(node, settings, &news).boxed());
    let decide = async {
        loop {
            news.notified().await;
            let located = locate(sentinels, settings, Instant::now() + REPLY_MAX).await;
            if located.is_ok_and(|located| located != *primary) {
                return;
            }
        }
    };
    tokio::select! {
        _ = join_all(listen) => {}
        () = decide => {}
    }
}

/// Announces each switch of a primary that this sentinel reports, and each subscription, before which one may have
/// been missed. Never ends.
async fn listen(node: &NodeAddress, settings: &ConnectionSettings, news: &Notify) {
    loop {
        let deadline = Instant::now() + REPLY_MAX;
        if let Ok(mut subscription) = begin(node, settings, deadline, subscribe).await {
            news.notify_one();
            let mut messages = subscription.on_message();
            while messages.next().await.is_some() {
                news.notify_one();
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn subscribe(login: RedisConnectionInfo, stream: Stream) -> RedisResult<PubSub> {
    let mut subscription = PubSub::new(&login, stream).await?;
    subscription.subscribe(SWITCHES).await?;
    Ok(subscription)
}

async fn ask(
    node: &NodeAddress,
    master: &str,
    settings: &ConnectionSettings,
    deadline: Instant,
) -> Result<View, QueueError> {
    let question = |login, stream| view_of(master.to_owned(), login, stream);
    begin(node, settings, deadline, question).await
}

async fn view_of(master: String, login: RedisConnectionInfo, stream: Stream) -> RedisResult<View> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(REPLY_MAX));
    let (mut sentinel, driver) =
        MultiplexedConnection::new_with_config(&login, stream, config).await?;
    let _driver = AbortOnDrop(tokio::spawn(driver));
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&master);
    questions.cmd("SENTINEL").arg("MASTER").arg(&master);
    let mut replies = sentinel.send_packed_commands(&questions, 0, 2).await?.into_iter();
    let address = replies.next().unwrap_or(Value::Nil).extract_error()?;
    if let Some(primary) = read_primary(&address, replies.next().as_ref()) {
        return Ok(View::Primary(primary));
    }
    let mut list = redis::cmd("SENTINEL");
    list.arg("MASTERS");
    let masters = sentinel.send_packed_command(&list).await?;
    Ok(View::NotWatched(read_names(&masters)))
}

/// The address that a sentinel names, with what else it knows; `None` if it names none.
fn read_primary(address: &Value, facts: Option<&Value>) -> Option<Primary> {
    let Value::Array(address) = address else { return None };
    let [host, port] = address.as_slice() else { return None };
    let fact = |name: &str| facts.and_then(|facts| field(facts, name)?.parse().ok());
    Some(Primary {
        host: text(host).ok()?.to_owned(),
        port: text(port).ok()?.parse().ok()?,
        epoch: fact("config-epoch").unwrap_or_default(),
        replicas: fact("num-slaves").unwrap_or_default(),
        quorum: fact("quorum").unwrap_or_default(),
    })
}

fn read_names(masters: &Value) -> Vec<String> {
    let Value::Array(masters) = masters else { return Vec::new() };
    masters.iter().filter_map(|facts| Some(field(facts, "name")?.to_owned())).collect()
}

/// The text of a field in a list of fields and values.
fn field<'v>(facts: &'v Value, name: &str) -> Option<&'v str> {
    let Value::Array(facts) = facts else { return None };
    let mut pairs = facts.chunks_exact(2);
    pairs.find_map(|pair| (text(&pair[0]).ok()? == name).then(|| text(&pair[1]).ok())?)
}

/// Connects to a sentinel and begins; a second time with the login of Redis if the sentinel demands one.
async fn begin<T, F>(
    node: &NodeAddress,
    settings: &ConnectionSettings,
    deadline: Instant,
    begin: impl Fn(RedisConnectionInfo, Stream) -> F,
) -> Result<T, QueueError>
where
    F: Future<Output = RedisResult<T>>,
{
    let login = settings.address()?.login.set_db(0);
    let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
    let logins = if login.password().is_some() { vec![nobody, login] } else { vec![nobody] };
    let mut failure = settings.no_reply();
    for login in logins {
        let stream = Stream::open(node, &settings.tls, deadline).await;
        let stream = stream.map_err(|error| settings.dial_failed(error))?;
        let traffic = Arc::clone(stream.traffic());
        match timeout_at(deadline, begin(login, stream)).await {
            Ok(Ok(begun)) => return Ok(begun),
            Ok(Err(error)) if is_unknown_command(&error) => {
                let reason = "it is not a sentinel".to_owned();
                return Err(QueueError::Unreachable { url: settings.public_url(), reason });
            }
            Ok(Err(error)) => {
                failure = settings.login_failed(&error, &traffic);
                if !is_refused_login(&error) {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    Err(failure)
}

fn is_unknown_command(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(ServerErrorKind::ResponseError)
        && error.detail().is_some_and(|detail| detail.contains("unknown command"))
}

/// The error if no sentinel names a primary: the first one that has a remedy of its own, or all together.
fn unreachable(url: String, failures: Vec<(&NodeAddress, QueueError)>) -> QueueError {
    let reason_of = |node: &dyn Display, error: &QueueError| match error {
        QueueError::Unreachable { reason, .. } => format!("{node}: {reason}"),
        other => format!("{node}: {}", other.problem()),
    };
    let reasons: Vec<String> =
        failures.iter().map(|(node, error)| reason_of(node, error)).collect();
    let has_remedy = |error: &QueueError| !matches!(error, QueueError::Unreachable { .. });
    if let Some((_, error)) = failures.into_iter().find(|(_, error)| has_remedy(error)) {
        return error;
    }
    let reason = match reasons.is_empty() {
        true => "none answers in time".to_owned(),
        false => reasons.join(", "),
    };
    QueueError::NoSentinel { url, reason }
}
