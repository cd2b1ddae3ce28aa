//! Records every command that Redis runs, with `MONITOR`, which shows the order across all runners. A script and
//! its commands are seen as separate entries. In a cluster each primary is recorded; their clock is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use duebox_harness::{RedisServer, TestRedis};

use crate::support::redis_state::key;

/// One command that Redis executed.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    /// Whether a script sent it.
    pub(crate) of_script: bool,
    /// Its name and its arguments.
    pub(crate) words: Vec<String>,
}

impl Command {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.words[0].eq_ignore_ascii_case(name)
    }
}

/// A recording of all commands of a Redis.
pub(crate) struct Monitor(Vec<Recording>);

/// A recording of all commands of a server.
struct Recording {
    stream: TcpStream,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts the recording.
    pub(crate) fn start(redis: &TestRedis) -> Self {
        Self::of(redis.primaries())
    }

    /// Starts the recording of these servers.
    pub(crate) fn of(servers: &[RedisServer]) -> Self {
        Self(servers.iter().map(Recording::start).collect())
    }

    /// Ends the recording and returns the commands in their order.
    pub(crate) fn commands(self, redis: &TestRedis) -> Vec<Command> {
        self.commands_of(redis.primaries())
    }

    /// The same of these servers.
    pub(crate) fn commands_of(self, servers: &[RedisServer]) -> Vec<Command> {
        let recorded = self.0.into_iter().zip(servers).map(|(one, server)| one.lines(server));
        let mut lines: Vec<String> = recorded.flatten().collect();
        if servers.len() > 1 {
            // A line begins with its time in µs, with as many digits as any other. What a server recorded stays
            // in its order.
            lines.sort_by(|one, other| time(one).cmp(time(other)));
        }
        lines.iter().map(|line| read(line)).collect()
    }
}

/// The time at which a recorded command ran, as text.
fn time(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

impl Recording {
    fn start(redis: &RedisServer) -> Self {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut answer = String::new();
        reader.read_line(&mut answer).unwrap();
        assert_eq!(answer, "+OK\r\n");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Self { stream, lines, reader: Some(reader) }
    }

    /// Ends the recording and returns its lines.
    fn lines(mut self, redis: &RedisServer) -> Vec<String> {
        // A marker command: it is executed after all earlier ones and appears in the recording, among
        // later commands of others.
        let last = format!("the end of {:?}", self.stream.local_addr().unwrap());
        let from = self.lines.lock().unwrap().len();
        redis.cli(&["ECHO", &last]);
        duebox_harness::eventually("the monitor has seen the last command", || {
            self.lines.lock().unwrap()[from..].iter().any(|line| line.contains(&last))
        });
        self.close();
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    fn close(&mut self) {
        // Fails only if the server has ended.
        drop(self.stream.shutdown(Shutdown::Both));
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.close();
    }
}

/// A line such as `+1763740800.123456 [0 lua] "ZADD" "key" "1" "member"`.
fn read(line: &str) -> Command {
    let (from, words) = line.split_once("] ").unwrap();
    Command { of_script: from.ends_with(" lua"), words: read_words(words) }
}

fn read_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut bytes = text.bytes();
    while bytes.by_ref().any(|byte| byte == b'"') {
        let mut word = Vec::new();
        loop {
            match bytes.next().unwrap() {
                b'"' => break,
                b'\\' => word.push(read_escaped(&mut bytes)),
                plain => word.push(plain),
            }
        }
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    words
}

fn read_escaped(bytes: &mut impl Iterator<Item = u8>) -> u8 {
    let mut digit = || char::from(bytes.next().unwrap());
    match digit() {
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'a' => 7,
        'b' => 8,
        'x' => {
            let digits = [digit(), digit()].iter().collect::<String>();
            u8::from_str_radix(&digits, 16).unwrap()
        }
        other => other as u8,
    }
}

/// A change of a lease of a topic.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) id: String,
    /// At the start of the lease: its expiry in µs, by the clock of the script. `None` at its end.
    pub(crate) expires_us: Option<u64>,
}

/// The starts and ends of leases of a topic. A renewal is not a change.
pub(crate) fn leases(commands: &[Command], topic: &str) -> Vec<Change> {
    let unack = key(topic, "unack");
    let ended = |id: &String| Change { id: id.clone(), expires_us: None };
    let (mut changes, mut tokens) = (Vec::new(), BTreeMap::new());
    for command in commands.iter().filter(|c| c.of_script && c.words.get(1) == Some(&unack)) {
        if command.is("ZADD") {
            let is_new = command.words[2] == "NX";
            // The last job of a lease is written first.
            for pair in command.words[if is_new { 3 } else { 2 }..].chunks(2).rev() {
                let (token, id) = (pair[0].clone(), pair[1].clone());
                if is_new {
                    changes
                        .push(Change { id: id.clone(), expires_us: Some(token.parse().unwrap()) });
                }
                tokens.insert(id, token);
            }
        } else if command.is("ZREM") {
            changes.extend(command.words[2..].iter().map(ended));
            tokens.retain(|id, _| !command.words[2..].contains(id));
        } else if command.is("ZREMRANGEBYSCORE") {
            // All jobs of a token are settled.
            let token = &command.words[2];
            changes.extend(tokens.iter().filter(|(_, of)| *of == token).map(|(id, _)| ended(id)));
            tokens.retain(|_, of| of != token);
        }
    }
    changes
}

/// The highest number of concurrent leases.
pub(crate) fn most_at_once<'c>(changes: impl Iterator<Item = &'c Change>) -> usize {
    let (mut held, mut most) = (BTreeSet::new(), 0);
    for change in changes {
        match change.expires_us {
            Some(_) => held.insert(&change.id),
            None => held.remove(&change.id),
        };
        most = most.max(held.len());
    }
    most
}

/// The ids in the order in which their leases began.
pub(crate) fn started(changes: &[Change]) -> Vec<&str> {
    let begins = |change: &&Change| change.expires_us.is_some();
    changes.iter().filter(begins).map(|change| change.id.as_str()).collect()
}

/// How often each script was called, by its digest.
pub(crate) fn calls(commands: &[Command]) -> BTreeMap<&str, usize> {
    let mut calls = BTreeMap::new();
    let is_call = |command: &&Command| command.is("EVALSHA") || command.is("EVALSHA_RO");
    for command in commands.iter().filter(is_call) {
        *calls.entry(command.words[1].as_str()).or_default() += 1;
    }
    calls
}

/// Whether in every time window no more leases began than `burst` plus what the rate
/// allows. All leases have the same length, so their expiry gives their start.
pub(crate) fn keeps_rate(
    changes: &[Change],
    interval: Duration,
    burst: usize,
) -> Result<(), String> {
    let times: Vec<u64> = changes.iter().filter_map(|change| change.expires_us).collect();
    let interval_us = interval.as_micros() as u64;
    for (first, from) in times.iter().enumerate() {
        for (last, until) in times.iter().enumerate().skip(first + burst) {
            let began = last - first + 1;
            let allowed = burst as u64 + (until - from) / interval_us;
            if began as u64 > allowed {
                let window_us = until - from;
                return Err(format!("{began} leases began in {window_us} µs: {allowed} may"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_monitor_line_is_parsed() {
    let line = r#"+1339518083.107412 [0 lua] "ZADD" "duebox:{a}:x" "0" "a\"\x00\\\n\xc3\xa4""#;
    let command = read(line);
    assert!(command.of_script);
    assert_eq!(command.words, ["ZADD", "duebox:{a}:x", "0", "a\"\0\\\nä"]);
}

#[test]
fn a_broken_rate_is_detected() {
    let lease = |at_us| Change { id: "a".to_owned(), expires_us: Some(at_us) };
    let keeps = |times: &[u64]| {
        let changes: Vec<Change> = times.iter().copied().map(lease).collect();
        keeps_rate(&changes, Duration::from_micros(100), 2).is_ok()
    };
    assert!(keeps(&[1_000, 1_000, 1_100, 1_200, 1_500, 1_500]));
    assert!(!keeps(&[1_000, 1_000, 1_099]) && !keeps(&[1_000, 1_000, 1_000]));
}
