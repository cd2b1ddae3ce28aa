//! A minimal HTTP client on a plain socket. It sends exactly the given bytes and reads whole responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use duebox_harness::{Daemon, patience};
use redis::io::tcp::socket2::{Domain, Socket, Type};
use serde_json::Value;

use crate::support::fixture::Fixture;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// One connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

/// The HTTP address of a daemon.
pub(crate) fn address(daemon: &Daemon) -> SocketAddr {
    let line = daemon.wait_for_line("HTTP", |line| line.message() == "HTTP is served");
    line.str("address").parse().unwrap()
}

/// A fixture with these topics for pull consumers, its daemon and its HTTP address.
pub(crate) fn fixture(topics: &str) -> (Fixture, Daemon, SocketAddr) {
    let fixture = Fixture::new();
    fixture.manifest("", &[topics.to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    (fixture, daemon, at)
}

/// Creates a token; returns the header value and its table for the file.
pub(crate) fn token(fixture: &Fixture, name: &str, scopes: &str, topics: &str) -> (String, String) {
    let words = ["token", "new", name, "--scopes", scopes, "--topics", topics, "--json"];
    let made: Value = serde_json::from_str(&fixture.duebox(&words)).unwrap();
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    (format!("Bearer {}", text("token")), text("table"))
}

/// Sends a request with this line, such as `GET /livez`, with these headers and this body, on a
/// new connection.
pub(crate) fn ask(at: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
    let mut connection = Connection::open(at);
    connection.send(&request(line, headers, body));
    connection.answer()
}

/// A request without a body.
pub(crate) fn get(at: SocketAddr, path: &str) -> Response {
    ask(at, &format!("GET {path}"), &[], b"")
}

/// A request with a JSON body.
pub(crate) fn post(at: SocketAddr, path: &str, json: &str) -> Response {
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
    /// Opens a connection with a receive buffer of a few KiB.
    pub(crate) fn open_narrow(at: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        socket.connect(&at.into()).unwrap();
        Self::of(socket.into())
    }

    pub(crate) fn open(at: SocketAddr) -> Self {
        Self::of(TcpStream::connect(at).unwrap())
    }

    /// Opens a connection from this address.
    pub(crate) fn open_from(from: SocketAddr, at: SocketAddr) -> Self {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, None).unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&at.into()).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(patience())).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Closes the sending side.
    pub(crate) fn end(&mut self) {
        self.reader.get_ref().shutdown(Shutdown::Write).unwrap();
    }

    /// The next response, which must arrive.
    pub(crate) fn answer(&mut self) -> Response {
        self.next_answer().expect("an answer before the connection ends")
    }

    /// A response without a body, such as one to HEAD.
    pub(crate) fn head(&mut self) -> Response {
        self.next_head().expect("an answer before the connection ends")
    }

    /// The next response; `None` if the connection ends before it.
    pub(crate) fn next_answer(&mut self) -> Option<Response> {
        let mut answer = self.next_head()?;
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse().unwrap()];
            self.reader.read_exact(&mut answer.body).unwrap();
        } else if answer.header("transfer-encoding").is_some() {
            answer.body = self.chunks();
        }
        Some(answer)
    }

    fn next_head(&mut self) -> Option<Response> {
        let first = self.line().filter(|line| !line.is_empty())?;
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Response { status, headers, body: Vec::new() })
    }

    /// The next chunk of a chunked response; empty at its end.
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

    /// A line without its line ending; `None` at the end of the connection.
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

impl Response {
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

    /// The type of the problem document, which must be complete.
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
