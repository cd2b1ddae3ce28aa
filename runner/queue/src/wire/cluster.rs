//! Redis Cluster: each command goes to the server that has the slot of its first key.
//!
//! There is one connection to each primary. What a server answers with a redirection, it has not carried out; only
//! these commands are sent again, to the server that it names. Commands of one call that go to one server keep their
//! order.

use std::collections::HashMap;
#[cfg(feature = "redis-connection")]
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use crate::error::QueueError;
use crate::wire::address::NodeAddress;
use crate::wire::cluster_call::{Call, Left, Part, add};
use crate::wire::cluster_view::{self, View, newest};
use crate::wire::connection_task::ConnectionTask;
use crate::wire::latency::LatencyStats;
use crate::wire::link::Endpoint;
use crate::wire::server_connection::{RawReplies, Repeat, SendFailure, ServerConnection};
use crate::wire::settings::ConnectionSettings;
use crate::wire::slots::{SlotMap, slot_of, slot_of_key};

/// How long a call is repeated while the cluster changes.
const REPLY_MAX: Duration = Duration::from_secs(5);
/// The wait before a command is sent again that no server could carry out.
const AGAIN_AFTER: Duration = Duration::from_millis(25);
/// The longest wait for the first server of the address, of which all are asked at once.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The longest wait for the slots of a cluster from some of its servers.
const SLOTS_MAX: Duration = Duration::from_secs(1);
/// The least time between two looks at the slots because one of them has moved.
const MAP_AGE_MIN: Duration = Duration::from_secs(1);
/// How many servers are asked for the slots at once.
const ASKED_MAX: usize = 5;

pub(super) struct Cluster {
    settings: Arc<ConnectionSettings>,
    layout_key: String,
    seeds: Vec<NodeAddress>,
    /// The slot of commands without a key.
    home: u16,
    latency: Arc<LatencyStats>,
    task: Arc<ConnectionTask>,
    state: Mutex<State>,
    /// Held while the slots are read.
    reading: tokio::sync::Mutex<()>,
}

/// A primary of a cluster that cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryAway {
    /// Its address.
    pub address: String,
    /// Why the last try to connect failed.
    pub reason: String,
}

#[derive(Default)]
struct State {
    map: SlotMap,
    servers: HashMap<String, ServerConnection>,
    /// How often the slots were read, and when at last.
    reads: u64,
    read_at: Option<Instant>,
}

impl Cluster {
    pub(super) async fn open(
        endpoint: Endpoint,
        seeds: &[NodeAddress],
        home: &str,
        latency: &Arc<LatencyStats>,
        task: &Arc<ConnectionTask>,
    ) -> Result<Arc<Self>, QueueError> {
        let Endpoint { settings, layout_key } = endpoint;
        let cluster = Self {
            settings: Arc::clone(&settings),
            layout_key,
            seeds: seeds.to_vec(),
            home: slot_of_key(home.as_bytes()),
            latency: Arc::clone(latency),
            task: Arc::clone(task),
            state: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        };
        let connected = cluster.seeds.iter().map(|seed| cluster.connect_to(seed).boxed()).collect();
        let ((name, server), view) = newest(connected, CONNECT_MAX, &settings).await?;
        cluster.state.lock().servers.insert(name, server);
        cluster.install(view.map);
        cluster.require_all_slots()
    }

    /// Connects to a server of the address and asks it for the slots.
    async fn connect_to(
        &self,
        seed: &NodeAddress,
    ) -> Result<((String, ServerConnection), View), QueueError> {
        let endpoint = self.endpoint(seed);
        let (server, _) = ServerConnection::open(&endpoint, &self.latency, &self.task).await?;
        let view = cluster_view::ask(&server, seed, &self.settings).await?;
        Ok(((seed.to_string(), server), view))
    }

    /// The cluster, if every slot has a server.
    fn require_all_slots(self) -> Result<Arc<Self>, QueueError> {
        let uncovered = self.state.lock().map.first_uncovered();
        match uncovered {
            None => Ok(Arc::new(self)),
            Some(slot) => {
                let reason = format!("no server of the cluster has slot {slot}");
                Err(QueueError::Cluster { url: self.settings.public_url(), reason })
            }
        }
    }

    pub(super) async fn send(
        &self,
        commands: &Pipeline,
        repeat: Repeat,
    ) -> Result<RawReplies, QueueError> {
        let deadline = Instant::now() + REPLY_MAX;
        let mut call = Call::new(commands, repeat, self.settings.node_addresses());
        let mut parts = self.parts(&call.all, 0..call.all.len())?;
        while !parts.is_empty() {
            let sent = parts.iter().map(|part| self.send_part(part, &call.all, commands, repeat));
            let sent = join_all(sent).await;
            let is_late = Instant::now() >= deadline;
            let mut left = Left::default();
            for (part, replies) in parts.into_iter().zip(sent) {
                call.take(part, replies, is_late, &mut left)?;
            }
            let has_moved = !left.moved.is_empty();
            for (slot, node) in left.moved {
                self.state.lock().map.record_move(slot, node);
            }
            if left.waits {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            if left.waits || (has_moved && self.is_map_old()) {
                self.read_slots_again().await;
            }
            left.again.sort_unstable();
            parts = self.parts(&call.all, left.again)?;
            parts.append(&mut left.asked);
        }
        let values = call.values.into_iter().map(|value| value.unwrap_or(Value::Nil)).collect();
        Ok(RawReplies { values, is_repeated: call.is_repeated, missing: call.missing })
    }

    /// Groups commands by their servers.
    fn parts(
        &self,
        all: &[&Cmd],
        indexes: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<Part>, QueueError> {
        let state = self.state.lock();
        let mut parts = Vec::new();
        for index in indexes {
            let slot = slot_of(all[index], self.home);
            let Some(node) = state.map.node_of(slot) else {
                return Err(QueueError::NoReply(format!(
                    "no server of the cluster has slot {slot}"
                )));
            };
            add(&mut parts, node.clone(), false, index);
        }
        Ok(parts)
    }

    async fn send_part(
        &self,
        part: &Part,
        all: &[&Cmd],
        whole: &Pipeline,
        repeat: Repeat,
    ) -> Result<RawReplies, SendFailure> {
        let server = self.server(&part.node);
        if part.commands.len() == all.len() && !part.asks {
            return server.send(whole, 0..all.len(), repeat).await;
        }
        let mut commands = Pipeline::with_capacity(part.commands.len());
        for index in &part.commands {
            if part.asks {
                commands.cmd("ASKING");
            }
            commands.add_command(all[*index].clone());
        }
        let mut replies = server.send(&commands, 0..commands.len(), repeat).await?;
        if part.asks {
            // Without the replies to ASKING.
            let values = std::mem::take(&mut replies.values);
            replies.values = values.into_iter().skip(1).step_by(2).collect();
        }
        Ok(replies)
    }

    /// How a node is reached. Only the one that has the slot of the layout's key tells its version; the others
    /// redirect the question.
    fn endpoint(&self, node: &NodeAddress) -> Arc<Endpoint> {
        let settings = Arc::new(self.settings.at(node.clone()));
        Arc::new(Endpoint { settings, layout_key: self.layout_key.clone() })
    }

    /// The connection to a server, which the first call makes.
    fn server(&self, node: &NodeAddress) -> ServerConnection {
        let mut state = self.state.lock();
        // The slots have been read again: they, or their servers, may be others than at first.
        let is_successor = state.reads > 1;
        let begin = || {
            let endpoint = self.endpoint(node);
            ServerConnection::begin(&endpoint, &self.latency, &self.task, is_successor)
        };
        state.servers.entry(node.to_string()).or_insert_with(begin).clone()
    }

    /// Reads the slots, unless another call does or has just done.
    async fn read_slots_again(&self) {
        let reads = self.state.lock().reads;
        let _reading = self.reading.lock().await;
        // Without a reply the old map serves; the next try reads again.
        drop(self.read_slots(reads).await);
    }

    /// Reads the slots unless another call has since `reads`, and closes connections to servers that have none.
    async fn read_slots(&self, reads: u64) -> Result<(), QueueError> {
        let nodes = {
            let state = self.state.lock();
            if state.reads != reads {
                return Ok(());
            }
            let mut nodes = state.map.primaries().to_vec();
            fastrand::shuffle(&mut nodes);
            nodes.extend(self.seeds.iter().cloned());
            nodes
        };
        let mut failure = self.settings.no_reply();
        for some in nodes.chunks(ASKED_MAX) {
            let asked = some.iter().map(|node| {
                let server = self.server(node);
                async move {
                    let view = cluster_view::ask(&server, node, &self.settings).await;
                    view.map(|view| ((), view))
                }
                .boxed()
            });
            match newest(asked.collect(), SLOTS_MAX, &self.settings).await {
                Ok(((), view)) => {
                    self.install(view.map);
                    return Ok(());
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Whether the slots were read so long ago that a slot that has moved is a reason to read them.
    fn is_map_old(&self) -> bool {
        self.state.lock().read_at.is_none_or(|at| at.elapsed() >= MAP_AGE_MIN)
    }

    fn install(&self, map: SlotMap) {
        let mut state = self.state.lock();
        state.map = map;
        state.reads += 1;
        state.read_at = Some(Instant::now());
        let State { map, servers, .. } = &mut *state;
        let needed: Vec<String> = map.primaries().iter().map(ToString::to_string).collect();
        servers.retain(|name, _| needed.contains(name));
    }

    /// When a connection to one of the servers was last made again.
    pub(super) fn reconnected_at(&self) -> Option<std::time::Instant> {
        self.state.lock().servers.values().filter_map(ServerConnection::reconnected_at).max()
    }

    pub(super) fn primaries(&self) -> usize {
        self.state.lock().map.primaries().len()
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.state.lock().map.primaries().iter().map(ToString::to_string).collect()
    }

    /// How many slots each primary has, in their order.
    pub(super) fn slots(&self) -> Vec<usize> {
        let map = &self.state.lock().map;
        (0..map.primaries().len()).map(|primary| map.count_of(primary)).collect()
    }

    /// The primaries whose connection is lost and could not be made again.
    pub(super) fn away(&self) -> Vec<PrimaryAway> {
        let state = self.state.lock();
        let away = |node: &NodeAddress| {
            let address = node.to_string();
            let reason = state.servers.get(&address)?.failure()?;
            Some(PrimaryAway { address, reason })
        };
        state.map.primaries().iter().filter_map(away).collect()
    }

    /// Sends commands to the primary of this number.
    pub(super) async fn send_to(
        &self,
        number: usize,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, QueueError> {
        let node = self.state.lock().map.primaries().get(number).cloned();
        let Some(node) = node else {
            return Err(QueueError::NoReply("the cluster has changed".to_owned()));
        };
        let replies = self.server(&node).send(commands, 0..commands.len(), Repeat::Always).await;
        if replies.is_err() {
            self.read_slots_again().await;
        }
        Ok(replies.map_err(|failed| failed.error)?.values)
    }

    /// Sends a transaction to the server of its first command.
    #[cfg(feature = "redis-connection")]
    pub(super) async fn send_whole(
        &self,
        commands: &Pipeline,
        wanted: Range<usize>,
    ) -> Result<RawReplies, SendFailure> {
        let slot =
            commands.cmd_iter().next().map_or(self.home, |command| slot_of(command, self.home));
        let node = self.state.lock().map.node_of(slot).cloned();
        match node {
            Some(node) => self.server(&node).send(commands, wanted, Repeat::Unsent).await,
            None => {
                let error =
                    QueueError::NoReply(format!("no server of the cluster has slot {slot}"));
                Err(SendFailure { error, is_unsent: true })
            }
        }
    }

    /// The connection to the server of commands without a key.
    pub(super) fn home(&self) -> Option<ServerConnection> {
        let node = self.state.lock().map.node_of(self.home).cloned()?;
        Some(self.server(&node))
    }

    /// The settings of a subscription. A message goes to all servers of a cluster, so any of them will do: a random
    /// primary, so that many runners do not all listen to one.
    pub(super) fn subscription_settings(&self) -> ConnectionSettings {
        let node = fastrand::choice(self.state.lock().map.primaries()).cloned();
        self.settings_at(node)
    }

    /// The settings of a subscription whose listeners are counted: at the server of commands without a key.
    pub(super) fn home_settings(&self) -> ConnectionSettings {
        let node = self.state.lock().map.node_of(self.home).cloned();
        self.settings_at(node)
    }

    fn settings_at(&self, node: Option<NodeAddress>) -> ConnectionSettings {
        let node = node.or_else(|| self.seeds.first().cloned());
        node.map_or_else(
            || ConnectionSettings::clone(&self.settings),
            |node| self.settings.at(node),
        )
    }

    /// Waits until the connection to the server of commands without a key was made again.
    pub(super) async fn reconnected(&self, known: &mut u64) {
        match self.home() {
            Some(home) => home.reconnected(known).await,
            None => std::future::pending().await,
        }
    }
}
