//! The shop that the real handlers talk to in these tests: `tests/shop`, open on a port of its own,
//! with a token.

use std::collections::BTreeMap;

use duebox_conformance::{Module, runtime};
use duebox_shop::Shop;

const TOKEN: &str = "let-me-in";

/// A shop of one test.
pub(crate) fn open() -> Shop {
    let opened = runtime().block_on(Shop::open(0, Some(TOKEN.to_owned())));
    opened.unwrap_or_else(|error| panic!("no shop: {error:#}"))
}

/// A handler whose topic names this shop and has its token; with further values.
pub(crate) fn module(name: &str, shop: &Shop, config: &[(&str, &str)]) -> Module {
    module_at(name, &shop.origin(), TOKEN, config)
}

/// The same with any origin and token.
pub(crate) fn module_at(name: &str, origin: &str, token: &str, config: &[(&str, &str)]) -> Module {
    let mut values = vec![("shop", origin), ("token", token)];
    values.extend(config);
    let owned = values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Module::built(name, owned.collect::<BTreeMap<_, _>>())
}

/// Orders a fault, as JSON text, of the next request whose path begins so.
pub(crate) fn order_fault(shop: &Shop, on: &str, fault: &str) {
    let ordered = shop.order_fault(&format!(r#"{{"on":"{on}","fault":{fault}}}"#));
    ordered.unwrap_or_else(|error| panic!("no fault: {error:#}"));
}

/// An origin where nobody listens.
pub(crate) fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let address = listener.and_then(|listener| listener.local_addr());
    format!("http://{}", address.unwrap_or_else(|error| panic!("no port: {error}")))
}
