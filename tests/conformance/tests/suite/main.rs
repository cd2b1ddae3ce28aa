//! The conformance of the SDKs and the real handlers, as compiled modules in the real sandbox. One
//! test binary, so that it links once.

/// What passes between source handlers and the services of the host.
mod bridge_services;
/// What passes between the daemon and source handlers.
mod bridges;
/// Every SDK passes every case of `cases/`.
mod conformance;
/// The modules in the documents.
mod documents;
/// The memory of the smallest handlers.
mod footprint;
/// Hostile programs of source handlers.
mod hostile_sources;
/// Dates in Retry-After, as each SDK parses them.
mod http_dates;
/// The AssemblyScript SDK's JSON reader compared with serde's.
mod json_reader;
/// Source handlers of too many or too large files.
mod large_sources;
/// Go's HTTP client over the SDK's transport.
mod net_http;
/// Closing unpaid orders, in Rust.
mod order_close;
/// What remains of a panic.
mod panics;
/// Following payments, in AssemblyScript.
mod payment_poll;
/// The shop that the real handlers call.
mod shop;
/// Messages to shops without goods, in Go.
mod shop_activation;
/// The handlers of examples/typescript and examples/python.
mod source_examples;
/// What jobs and topics of source handlers see of each other.
mod source_isolation;
/// Calling an application over plain HTTP, in Rust.
mod webhook;
