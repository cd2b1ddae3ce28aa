//! A client that says exactly what a test wants, and reads an answer to its end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use duebox_harness::{Daemon, patience};
use redis::io::tcp::socket2::{Domain, Socket, Type};
use serde_json::Value;

use crate::support::fixture::Ground;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// One connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

/// Where a daemon serves HTTP.
pub(crate) fn address(daemon: &Daemon) -> SocketAddr {
    let line = daemon.wait_for_line("HTTP", |line| line.message() == "HTTP is served");
    line.str("address").parse().unwrap()
}

/// Ground with these topics for pull consumers, its daemon, and where that serves HTTP.
pub(crate) fn ground(topics: &str) -> (Ground, Daemon, SocketAddr) {
    let ground = Ground::new();
    ground.manifest("", &[topics.to_owned()]);
    let daemon = ground.start();
    let at = address(&daemon);
    (ground, daemon, at)
}

/// Makes a token, and answers it as a header has it, and its table.
pub(crate) fn token(ground: &Ground, name: &str, scopes: &str, topics: &str) -> (String, String) {
    let words = ["token", "new", name, "--scopes", scopes, "--topics", topics, "--json"];
    let made: Value = serde_json::from_str(&ground.duebox(&words)).unwrap();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (format!("Bearer {}", text("token")), text("table"))
}

/// A request that begins with this line, such as `GET /livez`, with these headers and this body, on a
/// connection of its own.
pub(crate) fn ask(at: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut connection = Connection::open(at);
    connection.send(&request(line, headers, body));
    connection.answer()
}

/// A request without a body.
pub(crate) fn get(at: SocketAddr, path: &str) -> Answer {
    ask(at, &format!("GET {path}"), &[], b"")
}

/// A request with a JSON body.
pub(crate) fn post(at: SocketAddr, path: &str, json: &str) -> Answer {
    let headers = [("content-type", "application/json")];
    ask(at, &format!("POST {path}"), &headers, json.as_bytes())
}

/// A request as bytes.
pub(crate) fn request(line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{line} HTTP/1.1\r\n");
    if headers.iter().all(|(name, _)| *name != "host") {
        text.push_str("host: localhost\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || line.starts_with("POST") {
        text.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

impl Connection {
    /// One that takes only a few KiB before somebody reads them.
    pub(crate) fn open_narrow(at: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        socket.connect(&at.into()).unwrap();
        Self::of(socket.into())
    }

    pub(crate) fn open(at: SocketAddr) -> Self {
        Self::of(TcpStream::connect(at).unwrap())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Says that no more will be sent.
    pub(crate) fn end(&mut self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// The next answer, which must come.
    pub(crate) fn answer(&mut self) -> Answer {
        self.next_answer().expect("an answer before the connection ends")
    }

    /// An answer that has no body, whatever its length says.
    pub(crate) fn head(&mut self) -> Answer {
        self.next_head().expect("an answer before the connection ends")
    }

    /// The next answer; none if the connection ends before it.
    pub(crate) fn next_answer(&mut self) -> Option<Answer> {
        let mut answer = self.next_head()?;
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.reader.read_exact(&mut answer.body).unwrap();
        } else if answer.header("transfer-encoding").is_some() {
            answer.body = self.chunks();
        }
        Some(answer)
    }

    fn next_head(&mut self) -> Option<Answer> {
        let first = self.line().filter(|line| !line.is_empty())?;
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Answer { status, headers, body: Vec::new() })
    }

    /// The next piece of an answer that comes in pieces; empty at its end.
    pub(crate) fn chunk(&mut self) -> Vec<u8> {
        let length = usize::from_str_radix(&self.line().unwrap(), 16).unwrap();
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk).unwrap();
        chunk.truncate(length);
        chunk
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let chunk = self.chunk();
            if chunk.is_empty() {
                return all;
            }
            all.extend(chunk);
        }
    }

    /// A line without its end; none at the end of the connection.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no line: {error}"),
        }
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The kind of the problem that it is, which must be whole.
    #[track_caller]
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert_eq!(problem["request_id"].as_str(), self.header("x-request-id"), "{problem}");
        for text in ["title", "detail", "remedy"] {
            assert!(problem[text].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
        }
        let kind = problem["type"].as_str().unwrap();
        kind.strip_prefix("/problems/").unwrap().to_owned()
    }
}
