//! A server of a cluster, or a sentinel, that answers as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;

/// What a node does with a command.
pub(crate) enum Answer {
    /// These bytes.
    Reply(String),
    /// It closes the connection.
    Close,
}

impl Answer {
    pub(crate) fn int(number: u64) -> Self {
        Self::Reply(format!(":{number}\r\n"))
    }

    pub(crate) fn error(line: &str) -> Self {
        Self::Reply(format!("-{line}\r\n"))
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Reply(format!("${}\r\n{text}\r\n", text.len()))
    }
}

type Script = dyn Fn(&[String]) -> Answer + Send + Sync;

/// Bound, and silent until [`FakeNode::serve`].
pub(crate) struct FakeNode {
    listener: TcpListener,
    pub(crate) port: u16,
}

impl FakeNode {
    pub(crate) fn bind() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { listener, port }
    }

    /// Serves until the test ends: all slots are at the server of this port, by a configuration of this epoch. The
    /// script answers what is not about the server itself.
    pub(crate) fn serve(
        self,
        all_at: u16,
        epoch: u64,
        script: impl Fn(&[String]) -> Answer + Send + Sync + 'static,
    ) {
        let script: Arc<Script> = Arc::new(script);
        std::thread::spawn(move || {
            for client in self.listener.incoming().flatten() {
                let script = Arc::clone(&script);
                std::thread::spawn(move || answer_all(client, all_at, epoch, &*script));
            }
        });
    }
}

fn answer_all(client: TcpStream, all_at: u16, epoch: u64, script: &Script) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut client = client;
    while let Some(words) = read_command(&mut reader) {
        let answer = match (words[0].to_uppercase().as_str(), words.get(1).map(String::as_str)) {
            ("PING", _) => Answer::Reply("+PONG\r\n".to_owned()),
            // The layout of the queue: `SET` with `GET` answers what was there.
            ("GET" | "SET", _) => Answer::Reply("$-1\r\n".to_owned()),
            ("CLIENT" | "SCRIPT" | "ASKING", _) => Answer::Reply("+OK\r\n".to_owned()),
            ("CLUSTER", Some("SLOTS")) => Answer::Reply(format!(
                "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{all_at}\r\n"
            )),
            ("CLUSTER", _) => {
                Answer::text(&format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n"))
            }
            _ => script(&words),
        };
        match answer {
            Answer::Reply(bytes) if client.write_all(bytes.as_bytes()).is_ok() => {}
            _ => return,
        }
    }
}

/// The words of a command; `None` when the connection ends.
fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = number(reader)?;
    let word = |_| {
        let mut bytes = vec![0; number(reader)? + 2];
        reader.read_exact(&mut bytes).ok()?;
        bytes.truncate(bytes.len() - 2);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    (0..count).map(word).collect()
}

/// The number behind the first character of a line.
fn number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.get(1..)?.trim_end().parse().ok()
}
