//! The shop that the real handlers call in these tests: a `tests/shop` server on a port of its own,
//! with a token.

use std::collections::BTreeMap;

use duebox_conformance::{Module, runtime};
use duebox_shop::Shop;

pub(crate) const TOKEN: &str = "let-me-in";

/// Starts a shop for one test.
pub(crate) fn open() -> Shop {
    let opened = runtime().block_on(Shop::open(0, Some(TOKEN.to_owned())));
    opened.unwrap_or_else(|error| panic!("cannot start the shop: {error:#}"))
}

/// Loads a handler whose topic has this shop's origin and token, and further configuration values.
pub(crate) fn module(name: &str, shop: &Shop, config: &[(&str, &str)]) -> Module {
    module_at(name, &shop.origin(), TOKEN, config)
}

/// Loads a handler with any origin and token.
pub(crate) fn module_at(name: &str, origin: &str, token: &str, config: &[(&str, &str)]) -> Module {
    let mut values = vec![("shop", origin), ("token", token)];
    values.extend(config);
    let owned = values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Module::built(name, owned.collect::<BTreeMap<_, _>>())
}

/// Injects a fault, given as JSON, into the next request whose path starts with `on`.
pub(crate) fn inject_fault(shop: &Shop, on: &str, fault: &str) {
    let injected = shop.inject_fault(&format!(r#"{{"on":"{on}","fault":{fault}}}"#));
    injected.unwrap_or_else(|error| panic!("cannot inject the fault: {error:#}"));
}

/// An origin without a listener.
pub(crate) fn unreachable_origin() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let address = listener.and_then(|listener| listener.local_addr());
    format!("http://{}", address.unwrap_or_else(|error| panic!("no free port: {error}")))
}
