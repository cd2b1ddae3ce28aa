//! The network as a handler may use it. A topic grants origins, and the addresses of those origins are
//! checked; the host never connects to any other address.
//!
//! ```text
//!  http_send ─ request ─▶ grant (origin, literal address) ─▶ client of this grant (pool)
//!                                                               │ names ─▶ resolver ─▶ address
//!  http_read ◀─ response (head as a block, body within its cap) ◀┘ only public or granted ones
//! ```

mod address;
mod calls;
mod client;
mod error;
mod headers;
mod job_headers;
mod pool;
mod request;
mod resolver;
mod response;
mod tls;

pub use address::is_public;
pub(crate) use calls::{HasHttp, HttpState, IMPORTS, PREFIX, link};
pub use client::{HttpClient, HttpConfig};
pub use tls::{TlsError, client_tls_config};
