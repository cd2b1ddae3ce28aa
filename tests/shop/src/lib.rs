//! A test server that acts as a shop: orders, payments and messages in memory behind an HTTP API,
//! for handlers to call. README.md shows it by hand.
//!
//! Invariant: a repeated request has its effect once, and [`Books::ledger`] shows both requests.

mod api;
mod books;
mod faults;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tokio::net::TcpListener;

pub use books::{Books, Entry, Message};

use faults::Faults;

/// A running shop. Clones refer to the same shop; it is served as long as its runtime runs.
#[derive(Clone)]
pub struct Shop {
    address: SocketAddr,
    inner: Arc<Inner>,
}

/// Shared by all requests.
struct Inner {
    books: Mutex<Books>,
    faults: Mutex<Faults>,
    /// The required bearer token; without one no token is checked.
    token: Option<String>,
}

impl Shop {
    /// Starts a shop on a loopback port; 0 chooses a free one. With a token every request except
    /// for the ledger must send it (`Authorization: Bearer …`). Needs a tokio runtime.
    ///
    /// # Errors
    /// If the port is taken.
    pub async fn open(port: u16, token: Option<String>) -> anyhow::Result<Self> {
        let taken =
            || format!("cannot listen on port {port} of 127.0.0.1; choose another, or 0 for any");
        let listener = TcpListener::bind(("127.0.0.1", port)).await.with_context(taken)?;
        let address = listener.local_addr().context("cannot read the shop's address")?;
        let (books, faults) = (Mutex::default(), Mutex::default());
        let inner = Arc::new(Inner { books, faults, token });
        let served = axum::serve(listener, api::router(Arc::clone(&inner)));
        tokio::spawn(async move { served.await });
        Ok(Self { address, inner })
    }

    /// Its origin, `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The shop's data, to change and to read. Requests wait meanwhile.
    pub fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.inner.books)
    }

    /// Injects a fault in the JSON format of `POST /faults`.
    ///
    /// # Errors
    /// If the fault cannot be applied.
    pub fn inject_fault(&self, json: &str) -> anyhow::Result<()> {
        let pending = serde_json::from_str(json).context("invalid fault")?;
        lock(&self.inner.faults).add(pending).map_err(anyhow::Error::msg)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
