//! `order-close` with the test shop: orders in every state, faults, and malformed events.

use duebox_conformance::{Attempt, Module};
use duebox_shop::Shop;

use crate::shop;

fn module(shop: &Shop, config: &[(&str, &str)]) -> Module {
    shop::module("order-close", shop, config)
}

/// An event as a shop writes it.
fn event(order: &str) -> Attempt {
    Attempt::new(format!(
        r#"{{"event":"order.unpaid","order":"{order}","shop":"bramble","amount":"149.90",
        "currency":"EUR","created_at":"2026-11-21T09:30:00Z","items":[{{"sku":"tea","count":2}}]}}"#
    ))
}

/// The ledger of the shop: which orders were closed, and whether each request had an effect.
fn ledger(shop: &Shop) -> Vec<(String, bool)> {
    shop.books().ledger().iter().map(|entry| (entry.of.clone(), entry.effect)).collect()
}

#[test]
fn an_unpaid_order_is_closed_at_the_shop() {
    let shop = shop::open();
    let module = module(&shop, &[]);
    for state in ["unpaid", "failed", "cancelled", "expired"] {
        shop.books().place_order(state, &[state]);
        let run = module.run(&event(state));
        assert_eq!(run.verdict(), "ack", "{state}: {run:?}");
        let line = run.verdict_line();
        assert!(line.starts_with("info verdict=ack edition="), "{line}");
        assert!(
            line.contains(&format!("order={state} ")) && line.contains("closed=true"),
            "{line}"
        );
        assert!(line.contains("amount=149.90EUR"), "{line}");
        assert!(ledger(&shop).contains(&(state.to_owned(), true)));
    }
}

#[test]
fn the_shortest_event_and_an_unusual_name_are_accepted() {
    let shop = shop::open();
    shop.books().place_order("42", &[]);
    shop.books().place_order("2026/11#ü", &[]);
    let module = module(&shop, &[]);
    for payload in [r#"{"order":42}"#, r#"{"order":"2026/11#ü"}"#] {
        assert_eq!(module.run(&Attempt::new(payload)).verdict(), "ack", "{payload}");
    }
    assert_eq!(ledger(&shop), [("42".to_owned(), true), ("2026/11#ü".to_owned(), true)]);
}

#[test]
fn a_paid_order_is_not_closed() {
    let shop = shop::open();
    let module = module(&shop, &[]);
    for state in ["paid", "refunded"] {
        shop.books().place_order("A-1", &[state]);
        let run = module.run(&event("A-1"));
        assert_eq!(run.verdict(), "ack", "{state}: {run:?}");
        assert!(run.verdict_line().contains("closed=false paid=true"), "{run:?}");
    }
    assert_eq!(ledger(&shop), []);
}

#[test]
fn an_order_paid_before_the_close_request_is_not_closed() {
    let shop = shop::open();
    shop.books().place_order("A-1", &["unpaid"]);
    shop::inject_fault(&shop, "/orders/A-1/close", r#"{"answer":{"status":409}}"#);
    let run = module(&shop, &[]).run(&event("A-1"));
    assert_eq!(run.verdict(), "ack", "{run:?}");
    assert!(run.verdict_line().contains("closed=false paid=true"), "{run:?}");
    assert_eq!(ledger(&shop), []);
}

#[test]
fn a_payment_in_processing_is_retried_later() {
    let shop = shop::open();
    shop.books().place_order("A-1042", &["processing", "processing", "paid"]);
    let default = module(&shop, &[]);
    let run = default.run(&event("A-1042"));
    assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", Some(120_000)));
    assert_eq!(run.reason(), "the payment of order A-1042 is still processing");
    assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");

    let run = module(&shop, &[("processing_wait_s", "0.5")]).run(&event("A-1042").number(2));
    assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", Some(500)));
    assert_eq!(default.run(&event("A-1042").number(3)).verdict(), "ack");
}

#[test]
fn a_lost_response_does_not_close_an_order_twice() {
    let shop = shop::open();
    shop.books().place_order("A-1", &[]);
    let module = module(&shop, &[]);
    shop::inject_fault(&shop, "/orders/A-1/close", r#""lost""#);
    assert_eq!(module.run(&event("A-1")).verdict(), "nack");
    assert_eq!(module.run(&event("A-1").number(2)).verdict(), "ack");
    assert_eq!(ledger(&shop), [("A-1".to_owned(), true), ("A-1".to_owned(), false)]);
}

#[test]
fn every_other_response_of_the_shop_has_a_verdict() {
    let shop = shop::open();
    shop.books().place_order("A-1", &[]);
    let module = module(&shop, &[]);
    for (on, status, verdict) in [
        ("/orders/A-1", 404, "drop"),
        ("/orders/A-1", 410, "drop"),
        ("/orders/A-1", 400, "drop"),
        ("/orders/A-1/close", 422, "drop"),
        ("/orders/A-1", 401, "nack"),
        ("/orders/A-1/close", 403, "nack"),
        ("/orders/A-1", 408, "nack"),
        ("/orders/A-1", 500, "nack"),
        ("/orders/A-1/close", 503, "nack"),
        ("/orders/A-1", 302, "nack"),
        ("/orders/A-1", 204, "nack"),
    ] {
        shop::inject_fault(&shop, on, &format!(r#"{{"answer":{{"status":{status}}}}}"#));
        let run = module.run(&event("A-1"));
        assert_eq!((run.verdict(), run.retry_after_ms()), (verdict, None), "{status}: {run:?}");
        let begin = format!("info verdict={verdict} edition=");
        assert!(run.verdict_line().starts_with(&begin), "{run:?}");
    }
    let busy = r#"{"answer":{"status":429,"retry_after":"7"}}"#;
    shop::inject_fault(&shop, "/orders/A-1", busy);
    assert_eq!(module.run(&event("A-1")).retry_after_ms(), Some(7_000));
    assert_eq!(ledger(&shop), []);
    assert_eq!(module.run(&event("B-2")).reason(), "the shop has no order B-2 (404)");
}

#[test]
fn an_unreachable_or_hanging_shop_is_a_nack_with_a_reason() {
    let shop = shop::open();
    shop.books().place_order("A-1", &[]);
    let away =
        shop::module_at("order-close", &shop::unreachable_origin(), "", &[]).run(&event("A-1"));
    assert_eq!(away.verdict(), "nack", "{away:?}");
    shop::inject_fault(&shop, "/orders/A-1", r#""hang""#);
    let hung = module(&shop, &[]).run(&event("A-1").ttr_ms(400));
    assert_eq!(hung.verdict(), "nack", "{hung:?}");
    for run in [away, hung] {
        assert!(run.reason().starts_with("the shop: "), "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");
    }
}

#[test]
fn an_invalid_configuration_does_not_drop_the_job() {
    let shop = shop::open();
    shop.books().place_order("A-1042", &["processing"]);
    for wait in ["soon", "-1", "NaN", "31536001"] {
        let run = module(&shop, &[("processing_wait_s", wait)]).run(&event("A-1042"));
        assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", None), "{wait}: {run:?}");
        assert!(run.reason().contains("processing_wait_s"), "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");
    }
    let run = Module::built("order-close", [].into()).run(&event("A-1042"));
    assert_eq!(run.verdict(), "nack", "{run:?}");
    assert!(run.reason().contains("\"shop\" is missing"), "{run:?}");
    let wrong = shop::module_at("order-close", &shop.origin(), "wrong", &[]);
    let run = wrong.run(&event("A-1042"));
    assert_eq!((run.verdict(), run.reason()), ("nack", "the shop refused the token (401)"));
    let elsewhere = shop::module_at("order-close", "http://shop.example", "", &[]);
    assert_eq!(elsewhere.run(&event("A-1042")).verdict(), "nack", "not granted");
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    let shop = shop::open();
    let module = module(&shop, &[]);
    for (payload, why) in [
        ("", "EOF"),
        ("order 42", "expected value"),
        (r#"{"order":42"#, "EOF"),
        (r#"{"order":42} {"order":43}"#, "trailing characters"),
        ("[]", "invalid length 0"),
        (r#"{"id":42}"#, "missing field `order`"),
        (r#"{"order":-1}"#, "an order id is an integer or a string"),
        (r#"{"order":null}"#, "an order id is an integer or a string"),
        (r#"{"order":""}"#, "not a name of 1 to 64"),
        (r#"{"order":".."}"#, "not a name of 1 to 64"),
        (r#"{"order":"A 1\nverdict=ack"}"#, "not a name of 1 to 64"),
        (r#"{"order":42,"shop":"a\tb"}"#, "the shop"),
        (r#"{"order":42,"amount":149.9}"#, "expected a string"),
        (r#"{"order":42,"amount":"149,90"}"#, "not a decimal number"),
        (r#"{"order":42,"amount":"-5"}"#, "not a decimal number"),
        (r#"{"order":42,"amount":"5."}"#, "not a decimal number"),
        (r#"{"order":42,"currency":"euro"}"#, "three capital letters"),
    ] {
        let run = module.run(&Attempt::new(payload));
        assert_eq!(run.verdict(), "drop", "{payload}: {run:?}");
        assert!(run.reason().starts_with("malformed event: "), "{payload}: {run:?}");
        assert!(run.reason().contains(why), "{payload}: {run:?}");
        assert!(run.verdict_line().starts_with("info verdict=drop edition="), "{run:?}");
    }
    let run = module.run(&Attempt::new([0xff, 0x00, 0x7b]));
    assert_eq!(run.verdict(), "drop", "{run:?}");
}
