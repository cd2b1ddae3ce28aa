//! The server of a handler's requests in a test: a function, and the last response as the host
//! keeps it.

use std::fmt;
use std::rc::Rc;

use crate::abi::Part;
use crate::http::{Error, Request, Response};

type Responder = Rc<dyn Fn(&Request) -> Result<Response, Error>>;

/// Responds to requests and records them.
#[derive(Clone, Default)]
pub(super) struct Server {
    responder: Option<Responder>,
    pub(super) requests: Vec<Request>,
    head: String,
    body: Vec<u8>,
    error: String,
}

impl Server {
    pub(super) fn respond_with(
        &mut self,
        respond: impl Fn(&Request) -> Result<Response, Error> + 'static,
    ) {
        self.responder = Some(Rc::new(respond));
    }

    /// Records a request and returns the responding function.
    pub(super) fn take(&mut self, request: Request) -> Responder {
        self.requests.push(request);
        self.responder.clone().unwrap_or_else(|| Rc::new(|_| Err(no_server())))
    }

    /// Keeps the response for `part`, replacing the last one; returns its status or its error code.
    pub(super) fn keep(&mut self, response: Result<Response, Error>) -> i32 {
        match response {
            Ok(response) => {
                let (status, head, body) = response.into_parts();
                (self.head, self.body, self.error) = (head, body, String::new());
                i32::from(status)
            }
            Err(error) => {
                let (code, why) = error.code_and_message();
                (self.head, self.body, self.error) = (String::new(), Vec::new(), why.to_owned());
                code
            }
        }
    }

    pub(super) fn part(&self, part: Part) -> &[u8] {
        match part {
            Part::Head => self.head.as_bytes(),
            Part::Body => &self.body,
            Part::Error => self.error.as_bytes(),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("requests", &self.requests).finish_non_exhaustive()
    }
}

fn no_server() -> Error {
    Error::Unavailable("this test has no server; TestJob::server sets one".to_owned())
}

/// Parses the request from a head that the SDK wrote.
pub(super) fn read(head: &str, body: &[u8]) -> Request {
    let mut lines = head.lines();
    let (method, url) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let request = Request::new(method, url).body(body);
    lines
        .filter_map(|line| line.split_once(": "))
        .fold(request, |request, (name, value)| request.header(name, value))
}
