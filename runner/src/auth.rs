//! Access to the HTTP API: tokens, sessions of the page, and TLS.

pub(crate) mod sessions;
pub mod tls;
pub mod tokens;
