//! The network as a handler may use it: where it may go is granted by origin and by address, and nothing
//! else is ever dialled.
//!
//! ```text
//!  http_send ─ request ─▶ grant (origin, literal address) ─▶ client of this policy (pool)
//!                                                               │ names ─▶ resolver ─▶ address
//!  http_read ◀─ response (head as a block, body within its cap) ◀┘ only what is public or granted
//! ```

mod address;
mod client;
mod error;
mod grant;
mod headers;
mod imports;
mod marks;
mod pool;
mod request;
mod resolver;
mod response;
mod trust;

pub use address::is_public;
pub use client::{HttpClient, HttpConfig};
pub use grant::{HttpGrant, Origin, OriginError};
pub(crate) use imports::{Exchanges, IMPORTS, PREFIX, link};
pub(crate) use marks::{TRACEPARENT, TRACESTATE, Trace};
pub use trust::trusting_tls;
