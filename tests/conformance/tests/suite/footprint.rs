//! The memory of handlers: a small job does not grow it, because growing would double the job's
//! cost, and a large job gets what it needs.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module};

use crate::shop;

const PAGE: usize = 64 << 10;

#[test]
fn the_smallest_handler_stays_in_two_pages() {
    let run = Module::built("noop-rust", BTreeMap::new()).run(&Attempt::new("x".repeat(200)));
    assert_eq!((run.verdict(), run.memory_peak), ("ack", 2 * PAGE), "{run:?}");
}

#[test]
fn a_typical_event_does_not_grow_memory() {
    let shop = shop::open();
    shop.books().place_order("42", &[]);
    let order = r#"{"order":42,"shop":"bramble","amount":"19.90","currency":"EUR"}"#;
    let run = shop::module("order-close", &shop, &[]).run(&Attempt::new(order));
    assert_eq!((run.verdict(), run.memory_peak), ("ack", 3 * PAGE), "{run:?}");
    shop.books().start_payment("pay_81", &["open"]);
    let payment = r#"{"payment":{"id":"pay_81"}}"#;
    let run = shop::module("payment-poll", &shop, &[]).run(&Attempt::new(payment));
    assert_eq!((run.verdict(), run.memory_peak), ("nack", PAGE), "{run:?}");
}

#[test]
fn the_arena_grows_for_a_large_payload() {
    let shop = shop::open();
    shop.books().place_order("42", &[]);
    let items = "\"item\",".repeat(100_000);
    let payload = format!(r#"{{"order":42,"items":[{items}"last"]}}"#);
    let run = shop::module("order-close", &shop, &[]).run(&Attempt::new(payload.clone()));
    assert_eq!(run.verdict(), "ack", "{run:?}");
    let needed = payload.len()..payload.len() + 10 * PAGE;
    assert!(needed.contains(&run.memory_peak), "{} for {needed:?}", run.memory_peak);
}
