//! The other end of a handler's requests: a function of the test, and what the host keeps of its last
//! answer.

use std::fmt;
use std::rc::Rc;

use crate::abi::Part;
use crate::http::{Error, Request, Response};

type Answering = Rc<dyn Fn(&Request) -> Result<Response, Error>>;

/// Answers requests, and remembers them.
#[derive(Clone, Default)]
pub(super) struct Server {
    answering: Option<Answering>,
    pub(super) requests: Vec<Request>,
    head: String,
    body: Vec<u8>,
    error: String,
}

impl Server {
    pub(super) fn answers_by(
        &mut self,
        answer: impl Fn(&Request) -> Result<Response, Error> + 'static,
    ) {
        self.answering = Some(Rc::new(answer));
    }

    /// Remembers a request, and gives what answers it.
    pub(super) fn take(&mut self, request: Request) -> Answering {
        self.requests.push(request);
        self.answering.clone().unwrap_or_else(|| Rc::new(|_| Err(no_server())))
    }

    /// Keeps the answer for `part`, instead of the one before; its status, or the number of its error.
    pub(super) fn keep(&mut self, response: Result<Response, Error>) -> i32 {
        match response {
            Ok(response) => {
                let (status, head, body) = response.into_parts();
                (self.head, self.body, self.error) = (head, body, String::new());
                i32::from(status)
            }
            Err(error) => {
                let (answer, why) = error.answer();
                (self.head, self.body, self.error) = (String::new(), Vec::new(), why.to_owned());
                answer
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

/// The request of a head, which the SDK itself has written.
pub(super) fn read(head: &str, body: &[u8]) -> Request {
    let mut lines = head.lines();
    let (method, url) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
    let request = Request::new(method, url).body(body);
    lines
        .filter_map(|line| line.split_once(": "))
        .fold(request, |request, (name, value)| request.header(name, value))
}
