//! The server that handlers report to. It records each run, waits as long as the job takes, and answers what
//! the handler does then.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::ledger::{Ledger, Name};
use crate::plan::{CHILDREN, Plan, Verdict, child_of};

/// The server of a row.
pub(crate) struct Witness {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Witness {
    pub(crate) fn start(runtime: &Handle, ledger: &Arc<Ledger>) -> anyhow::Result<Self> {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr().context("the witness has no address")?;
        let routes = Router::new().route("/run", post(run)).with_state(Arc::clone(ledger));
        let task = runtime.spawn(async move {
            // It ends with its task only.
            drop(axum::serve(listener, routes).await);
        });
        Ok(Self { address, task })
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Closes a run whose handler went away.
struct Open<'l> {
    ledger: &'l Ledger,
    run: usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.ledger.closes(self.run);
    }
}

async fn run(State(ledger): State<Arc<Ledger>>, headers: HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = Name::new(text("run-topic"), text("run-id"));
    let attempt = text("run-attempt").parse().unwrap_or(0);
    let plan = Plan::of(&name.id);
    let verdict = plan.verdict(attempt);
    let follow_up = match (plan, verdict) {
        (Plan::Follow, Verdict::Ack) => format!("push {CHILDREN} {}\n", child_of(&name.id)),
        _ => String::new(),
    };
    let run = ledger.begins(name, attempt, text("run-by"), text("run-count").parse().ok());
    let open = Open { ledger: &ledger, run };
    tokio::time::sleep(plan.duration()).await;
    ledger.answers(open.run);
    follow_up + verdict.word()
}
