//! One Redis: its clock, its scripts, and the states in which it refuses.

use std::collections::HashSet;
use std::hash::Hasher as _;
use std::sync::Arc;

use redis::{Arg, Pipeline, Value};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::command::{self, Access, Arguments};
use super::database::{Bytes, Database};
use super::hasher::{FastHasher, FastState};
use super::interpreter::{Interpreter, Reach};
use super::leases;
pub(crate) use super::leases::LeaseEvent;

/// The Redis clock at the start of a life, in µs since the epoch.
const BEGAN_US: u64 = 1_763_740_800_000_000;

/// The commands that a life sends at one moment at most; a busy one sends some dozens.
const COMMANDS_AT_ONCE_MAX: u32 = 10_000;
/// More commands in one life mean that it has no end. A life sends some thousands.
const COMMANDS_MAX: u64 = 300_000;
/// After so many commands the garbage of Lua is collected if there is much.
const COMMANDS_OF_GARBAGE: u64 = 1_000;
/// How many of them are shown if there are more.
const COMMANDS_SHOWN: u32 = 3;

/// What Redis refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing.
    #[default]
    None,
    /// Commands that need memory.
    OutOfMemory,
    /// Every write.
    ReadOnly,
}

impl Refusal {
    /// The error that Redis replies.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
        }
    }
}

/// A change of the queue's scripts, for tests that show that the simulation finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// What it breaks.
    pub name: &'static str,
    /// The text that is replaced in every script that has it.
    pub from: &'static str,
    /// What stands in its place.
    pub to: &'static str,
}

impl Mutation {
    /// The script with the change.
    pub fn apply(&self, source: &str) -> String {
        source.replace(self.from, self.to)
    }
}

/// A message: channel and text.
pub type Message = (String, String);

/// One Redis.
pub struct Server {
    reach: Reach,
    began: Instant,
    /// How far the clock was set, in µs.
    clock_shift_us: i64,
    last_us: u64,
    /// The moment of the last command, and how many there were at that moment.
    at_once: (Instant, u32),
    commands: u64,
    standstill: Arc<Notify>,
    /// The last commands before time stood still.
    repeated: Vec<String>,
    known_scripts: HashSet<String, FastState>,
    /// How often it was started again.
    restarts: u64,
    subscribers: Vec<(u64, mpsc::UnboundedSender<Message>)>,
    /// The data of the replica, while it is behind.
    replica: Option<Database>,
    mutation: Option<Mutation>,
    trace: FastHasher,
    /// Prints every command.
    is_verbose: bool,
}

impl Server {
    /// A Redis without keys and scripts.
    pub fn new(mutation: Option<Mutation>, is_verbose: bool) -> Self {
        Self {
            reach: Reach::default(),
            began: Instant::now(),
            clock_shift_us: 0,
            last_us: 0,
            at_once: (Instant::now(), 0),
            commands: 0,
            standstill: Arc::default(),
            repeated: Vec::new(),
            known_scripts: HashSet::default(),
            restarts: 0,
            subscribers: Vec::new(),
            replica: None,
            mutation,
            trace: FastHasher::default(),
            is_verbose,
        }
    }

    /// The keys and values.
    pub(crate) fn database(&self) -> &Database {
        &self.reach.db
    }

    /// A number that stands for every command and reply so far.
    pub fn trace(&self) -> u64 {
        self.trace.finish()
    }

    /// The clock, in µs since the epoch.
    pub fn now_us(&self) -> u64 {
        let passed = self.began.elapsed().as_micros() as u64;
        (BEGAN_US + passed).saturating_add_signed(self.clock_shift_us)
    }

    /// Sets the clock by so much.
    pub fn shift_clock(&mut self, by_us: i64) {
        self.clock_shift_us += by_us;
        self.last_us = 0;
    }

    /// Forgets every script.
    pub fn flush_scripts(&mut self) {
        self.known_scripts.clear();
    }

    /// Starts again, with its data and without its scripts.
    pub fn restart(&mut self) {
        self.flush_scripts();
        self.restarts += 1;
    }

    /// From now on the replica lacks the leases and extensions since the last other write. It lacks nothing else: what a
    /// producer was told and what verdicts did is confirmed only when the replica has it (`redis.durability = "replica"`).
    pub(crate) fn let_replica_lag(&mut self) {
        self.replica = Some(self.reach.db.clone());
    }

    /// Whether a job is leased that is not leased on the replica.
    pub(crate) fn replica_lacks_lease(&self) -> bool {
        let behind = self.replica.as_ref().map(leases::leased);
        behind.is_some_and(|behind| !leases::leased(&self.reach.db).is_subset(&behind))
    }

    /// The replica takes over, whose clock is behind by so much. Returns the jobs that are leased on it.
    pub(crate) fn fail_over(&mut self, behind_us: i64) -> HashSet<String> {
        if let Some(data) = self.replica.take() {
            self.reach.db = data;
        }
        self.shift_clock(-behind_us);
        self.restart();
        leases::leased(&self.reach.db)
    }

    fn replicate(&mut self, words: &[Bytes]) {
        if self.replica.is_some() && !leases::only_leases(words) && self.has_written(words) {
            self.replica = Some(self.reach.db.clone());
        }
    }

    /// Whether a call, which has been carried out, has written.
    fn has_written(&self, words: &[Bytes]) -> bool {
        let name = words.first().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
        match &*name {
            "EVALSHA" | "EVAL" => self.reach.has_written,
            "EVALSHA_RO" | "EVAL_RO" | "SCRIPT" | "TIME" | "INFO" | "PING" => false,
            name => command::access_of(name) != Access::Reads,
        }
    }

    /// Sets what it refuses.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.reach.refusal = refusal;
    }

    /// Adds a subscriber to all channels, on the connection with this number.
    pub fn subscribe(&mut self, link: u64) -> mpsc::UnboundedReceiver<Message> {
        let (sender, messages) = mpsc::unbounded_channel();
        self.subscribers.push((link, sender));
        messages
    }

    /// Cuts the subscribers of a connection, or all.
    pub fn cut_subscribers(&mut self, link: Option<u64>) {
        self.subscribers.retain(|(found, _)| link.is_some_and(|link| *found != link));
    }

    /// Carries out commands; a reply for each.
    pub fn execute(&mut self, commands: &Pipeline) -> Vec<Value> {
        commands.cmd_iter().map(|command| self.execute_one(&words(command))).collect()
    }

    fn execute_one(&mut self, words: &[Bytes]) -> Value {
        // Each command takes a microsecond, so that no two leases share a token by the pause of time.
        self.count(words);
        self.last_us = self.now_us().max(self.last_us + 1);
        self.reach.time = (self.last_us / 1_000_000, self.last_us % 1_000_000);
        let earlier = self.reach.lease_events.len();
        let result = self.reply(words);
        if words.iter().any(|word| leases::is_verdict(word)) {
            leases::end_by_verdict(&mut self.reach.lease_events[earlier..]);
        }
        self.replicate(words);
        let reply = result.unwrap_or_else(|error| {
            let line = format!("-{}\r\n", error.replace(['\r', '\n'], " "));
            redis::parse_redis_value(line.as_bytes()).unwrap_or(Value::Nil)
        });
        self.note(words, &reply);
        for (channel, text) in std::mem::take(&mut self.reach.published) {
            self.subscribers
                .retain(|(_, sender)| sender.send((channel.clone(), text.clone())).is_ok());
        }
        reply
    }

    /// What happened to leases since the last call of this function.
    pub(crate) fn take_lease_events(&mut self) -> Vec<LeaseEvent> {
        std::mem::take(&mut self.reach.lease_events)
    }

    /// What is notified when time stands still: tasks keep each other busy, and no timer ends.
    pub(crate) fn standstill(&self) -> Arc<Notify> {
        Arc::clone(&self.standstill)
    }

    /// The last commands before time stood still.
    pub(crate) fn repeated_commands(&self) -> String {
        self.repeated.join("; ")
    }

    /// Counts the commands at one moment.
    fn count(&mut self, words: &[Bytes]) {
        let now = Instant::now();
        if self.at_once.0 != now {
            self.at_once = (now, 0);
        }
        self.at_once.1 += 1;
        self.commands += 1;
        if self.commands.is_multiple_of(COMMANDS_OF_GARBAGE) {
            Interpreter::with(|interpreter| interpreter.collect_garbage());
        }
        let left = COMMANDS_AT_ONCE_MAX.saturating_sub(self.at_once.1);
        let left =
            left.min(u32::try_from(COMMANDS_MAX.saturating_sub(self.commands)).unwrap_or(u32::MAX));
        if (1..=COMMANDS_SHOWN).contains(&left) {
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            self.repeated.push(words.join(" "));
        }
        if left == 0 {
            self.standstill.notify_one();
        }
    }

    fn note(&mut self, words: &[Bytes], reply: &Value) {
        self.trace.write_u64(self.last_us);
        for word in words {
            self.trace.write(word);
        }
        if self.is_verbose {
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
            let shown = words.iter().map(|word| word.escape_default().to_string());
            let shown: Vec<String> = shown.collect();
            say(&format!("{} {} -> {reply:?}", self.last_us, shown.join(" ")));
        }
    }

    fn reply(&mut self, words: &[Bytes]) -> Result<Value, String> {
        let args = Arguments(words);
        let name = String::from_utf8_lossy(args.get(0)?);
        match &*name {
            "EVALSHA" | "EVALSHA_RO" => {
                let digest = String::from_utf8_lossy(args.get(1)?);
                self.run_script(&digest, &args)
            }
            "EVAL" | "EVAL_RO" => {
                let digest = self.load_script(args.get(1)?)?;
                self.run_script(&digest, &args)
            }
            "SCRIPT" => Ok(Value::BulkString(self.load_script(args.get(2)?)?.into_bytes())),
            "TIME" => {
                let text = |number: u64| Value::BulkString(number.to_string().into_bytes());
                Ok(Value::Array(vec![text(self.reach.time.0), text(self.reach.time.1)]))
            }
            "INFO" => Ok(Value::BulkString(format!("run_id:{}\r\n", self.restarts).into_bytes())),
            "PING" => Ok(Value::SimpleString("PONG".to_owned())),
            _ => self.run_command(&name, &args),
        }
    }

    fn run_command(&mut self, name: &str, args: &Arguments<'_>) -> Result<Value, String> {
        let is_refused = match self.reach.refusal {
            Refusal::None => false,
            Refusal::OutOfMemory => command::access_of(name) == Access::Adds,
            Refusal::ReadOnly => command::access_of(name) != Access::Reads,
        };
        if is_refused {
            return Err(self.reach.refusal.text().to_owned());
        }
        command::execute(&mut self.reach.db, name, args)
    }

    fn load_script(&mut self, text: &[u8]) -> Result<String, String> {
        let mutation = self.mutation.as_ref();
        let digest = Interpreter::with(|interpreter| interpreter.load(text, mutation))?;
        self.known_scripts.insert(digest.clone());
        Ok(digest)
    }

    fn run_script(&mut self, digest: &str, args: &Arguments<'_>) -> Result<Value, String> {
        let count = command::integer_of(args.get(2)?)?.max(0) as usize;
        if !self.known_scripts.contains(digest) {
            return Err("NOSCRIPT No matching script. Please use EVAL.".to_owned());
        }
        let (keys, rest) = args.0[3..].split_at_checked(count).ok_or("ERR too few keys")?;
        let mutation = self.mutation.as_ref().map_or("", |mutation| mutation.name);
        let reach = &mut self.reach;
        Interpreter::with(|interpreter| interpreter.run(digest, mutation, keys, rest, reach))
    }
}

#[expect(clippy::print_stdout, reason = "a replay shows what happens")]
fn say(line: &str) {
    println!("{line}");
}

impl Drop for Server {
    fn drop(&mut self) {
        Interpreter::with(|interpreter| interpreter.collect_garbage());
    }
}

fn words(command: &redis::Cmd) -> Vec<Bytes> {
    command
        .args_iter()
        .map(|arg| match arg {
            Arg::Simple(word) => word.to_vec(),
            _ => b"0".to_vec(),
        })
        .collect()
}
