//! One test binary, one link: the SDKs' conformance and the real handlers, all as compiled modules
//! in the real sandbox.

/// Every SDK passes every case of `cases/`.
mod conformance;
/// The shop that the real handlers talk to.
mod counter;
/// The modules that the documents show.
mod documents;
/// What is left of a panic.
mod evidence;
/// What the smallest handlers ask of the host.
mod footprint;
/// The dates of Retry-After, as each SDK reads them.
mod http_dates;
/// The JSON reader of the AssemblyScript SDK against serde.
mod json_reader;
/// Go's own HTTP client over the SDK's transport.
mod net_http;
/// Closing unpaid orders, in Rust.
mod order_close;
/// Following payments, in AssemblyScript.
mod payment_poll;
/// The message to shops without goods, in Go.
mod shop_activation;
/// What a user begins with builds and runs.
mod templates;
/// Waking an application by plain HTTP, in Rust.
mod webhook;
