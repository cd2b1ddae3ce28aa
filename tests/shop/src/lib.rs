//! A small shop that is not one: orders, payments and messages behind an HTTP API as a shop's own would
//! be, all in memory, so that handlers have somebody to talk to. README.md shows it by hand.
//!
//! Invariant: whatever is asked twice has its effect once, and [`Books::ledger`] tells both.

mod api;
mod books;
mod faults;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use tokio::net::TcpListener;

pub use books::{Books, Entry, Message};

use faults::Faults;

/// A shop that is open. Clones are the same shop; it is served for as long as its runtime runs.
#[derive(Clone)]
pub struct Shop {
    address: SocketAddr,
    inner: Arc<Inner>,
}

/// What the requests share.
struct Inner {
    books: Mutex<Books>,
    faults: Mutex<Faults>,
    /// What a request must show as its bearer; none lets everybody in.
    token: Option<String>,
}

impl Shop {
    /// Opens a shop on a loopback port, 0 for any that is free. With a token every request must carry
    /// it (`Authorization: Bearer …`), but for the ledger. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the port is taken.
    pub async fn open(port: u16, token: Option<String>) -> anyhow::Result<Self> {
        let taken =
            || format!("cannot listen on port {port} of 127.0.0.1; choose another, or 0 for any");
        let listener = TcpListener::bind(("127.0.0.1", port)).await.with_context(taken)?;
        let address = listener.local_addr().context("cannot tell the shop's own address")?;
        let (books, faults) = (Mutex::default(), Mutex::default());
        let inner = Arc::new(Inner { books, faults, token });
        let served = axum::serve(listener, api::router(Arc::clone(&inner)));
        tokio::spawn(async move { served.await });
        Ok(Self { address, inner })
    }

    /// Where it is: `http://127.0.0.1:PORT`, an origin as a manifest names it.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The books, to write in and to read from beside the API. No request is answered meanwhile.
    pub fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.inner.books)
    }

    /// Orders a fault, in the JSON that `POST /faults` takes.
    ///
    /// # Errors
    /// If it is none that can be delivered.
    pub fn order_fault(&self, json: &str) -> anyhow::Result<()> {
        let ordered = serde_json::from_str(json).context("that is no fault to order")?;
        lock(&self.inner.faults).order(ordered).map_err(anyhow::Error::msg)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
