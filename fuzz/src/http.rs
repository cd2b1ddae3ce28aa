//! Requests as an input has them, and responses as a client reads them.

/// The most headers of a response.
const HEADERS_MAX: usize = 64;

/// A request as it is sent.
pub struct Request {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The response has no body.
    pub is_head: bool,
}

/// A response.
pub struct Response {
    /// Its status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// Its body, as far as it came.
    pub body: Vec<u8>,
    /// The end of the body did not come.
    pub is_cut: bool,
}

impl Request {
    /// Reads a request line, headers, a blank line and a body. What HTTP/1.1 needs beyond that is added,
    /// so that most inputs reach a route. `gzip` compresses a body that is only declared as compressed.
    pub fn read(text: &[u8], gzip: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let end = text.windows(2).position(|pair| pair == b"\n\n");
        let (head, body) = match end {
            Some(end) => (&text[..end], &text[end + 2..]),
            None => (text, &b""[..]),
        };
        let lower = String::from_utf8_lossy(head).to_ascii_lowercase();
        let has = |header: &str| lower.contains(&format!("\n{header}:"));
        let body =
            match lower.contains("\ncontent-encoding: gzip") && !body.starts_with(&[0x1f, 0x8b]) {
                true => gzip(body),
                false => body.to_vec(),
            };
        let mut bytes = Vec::with_capacity(text.len() + 100);
        for (at, line) in head.split(|byte| *byte == b'\n').enumerate() {
            bytes.extend_from_slice(line);
            if at == 0 && !line.windows(5).any(|window| window == b"HTTP/") {
                bytes.extend_from_slice(b" HTTP/1.1");
            }
            bytes.extend_from_slice(b"\r\n");
        }
        let mut add = |header: &str, value: String| {
            if !has(header) {
                bytes.extend_from_slice(format!("{header}: {value}\r\n").as_bytes());
            }
        };
        add("host", "a".to_owned());
        add("connection", "close".to_owned());
        if !has("transfer-encoding") {
            add("content-length", body.len().to_string());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&body);
        Self { bytes, is_head: lower.starts_with("head ") }
    }
}

impl Response {
    /// Reads the last response before the connection ended; `None` if its head is not whole.
    pub fn read(mut bytes: &[u8], is_head: bool) -> Option<Self> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut head = httparse::Response::new(&mut headers);
            let httparse::Status::Complete(len) = head.parse(bytes).ok()? else { return None };
            bytes = &bytes[len..];
            let status = head.code?;
            if status < 200 {
                continue;
            }
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let headers: Vec<_> = head
                .headers
                .iter()
                .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
                .collect();
            let mut response = Self { status, headers, body: Vec::new(), is_cut: false };
            if !is_head {
                response.read_body(bytes);
            }
            return Some(response);
        }
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn read_body(&mut self, mut bytes: &[u8]) {
        if let Some(len) = self.header("content-length").and_then(|len| len.parse::<usize>().ok()) {
            self.is_cut = bytes.len() < len;
            self.body = bytes[..len.min(bytes.len())].to_vec();
            return;
        }
        loop {
            let Ok(httparse::Status::Complete((start, len))) = httparse::parse_chunk_size(bytes)
            else {
                self.is_cut = self.header("transfer-encoding").is_some();
                return;
            };
            let len = usize::try_from(len).unwrap_or(usize::MAX);
            let Some(chunk) = bytes.get(start..start.saturating_add(len)) else {
                self.is_cut = true;
                return;
            };
            if len == 0 {
                return;
            }
            self.body.extend_from_slice(chunk);
            bytes = bytes.get(start + len + 2..).unwrap_or_default();
        }
    }
}
