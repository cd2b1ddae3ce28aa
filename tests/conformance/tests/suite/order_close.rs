//! `order-close` at the shop: on orders in every state, under faults, and on events that are malformed.

use duebox_conformance::{Attempt, Module};
use duebox_shop::Shop;

use crate::counter;

fn module(shop: &Shop, config: &[(&str, &str)]) -> Module {
    counter::module("order-close", shop, config)
}

/// An event as a shop writes it.
fn event(order: &str) -> Attempt {
    Attempt::new(format!(
        r#"{{"event":"order.unpaid","order":"{order}","shop":"bramble","amount":"149.90",
        "currency":"EUR","created_at":"2026-11-21T09:30:00Z","items":[{{"sku":"tea","count":2}}]}}"#
    ))
}

/// What the shop did: which orders it closed, and whether a request was the first.
fn ledger(shop: &Shop) -> Vec<(String, bool)> {
    shop.books().ledger().iter().map(|entry| (entry.of.clone(), entry.effect)).collect()
}

#[test]
fn an_unpaid_order_is_closed_at_the_shop() {
    let shop = counter::open();
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
fn the_shortest_event_and_the_oddest_name_are_enough() {
    let shop = counter::open();
    shop.books().place_order("42", &[]);
    shop.books().place_order("2026/11#ü", &[]);
    let module = module(&shop, &[]);
    for payload in [r#"{"order":42}"#, r#"{"order":"2026/11#ü"}"#] {
        assert_eq!(module.run(&Attempt::new(payload)).verdict(), "ack", "{payload}");
    }
    assert_eq!(ledger(&shop), [("42".to_owned(), true), ("2026/11#ü".to_owned(), true)]);
}

#[test]
fn an_order_that_is_paid_stays() {
    let shop = counter::open();
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
fn an_order_paid_between_the_look_and_the_closing_stays() {
    let shop = counter::open();
    shop.books().place_order("A-1", &["unpaid"]);
    counter::order_fault(&shop, "/orders/A-1/close", r#"{"answer":{"status":409}}"#);
    let run = module(&shop, &[]).run(&event("A-1"));
    assert_eq!(run.verdict(), "ack", "{run:?}");
    assert!(run.verdict_line().contains("closed=false paid=true"), "{run:?}");
    assert_eq!(ledger(&shop), []);
}

#[test]
fn a_payment_in_processing_is_waited_for() {
    let shop = counter::open();
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
fn an_attempt_whose_answer_was_lost_closes_nothing_twice() {
    let shop = counter::open();
    shop.books().place_order("A-1", &[]);
    let module = module(&shop, &[]);
    counter::order_fault(&shop, "/orders/A-1/close", r#""lost""#);
    assert_eq!(module.run(&event("A-1")).verdict(), "nack");
    assert_eq!(module.run(&event("A-1").number(2)).verdict(), "ack");
    assert_eq!(ledger(&shop), [("A-1".to_owned(), true), ("A-1".to_owned(), false)]);
}

#[test]
fn what_the_shop_answers_otherwise_is_a_verdict() {
    let shop = counter::open();
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
        counter::order_fault(&shop, on, &format!(r#"{{"answer":{{"status":{status}}}}}"#));
        let run = module.run(&event("A-1"));
        assert_eq!((run.verdict(), run.retry_after_ms()), (verdict, None), "{status}: {run:?}");
        let begin = format!("info verdict={verdict} edition=");
        assert!(run.verdict_line().starts_with(&begin), "{run:?}");
    }
    let busy = r#"{"answer":{"status":429,"retry_after":"7"}}"#;
    counter::order_fault(&shop, "/orders/A-1", busy);
    assert_eq!(module.run(&event("A-1")).retry_after_ms(), Some(7_000));
    assert_eq!(ledger(&shop), []);
    assert_eq!(module.run(&event("B-2")).reason(), "the shop has no order B-2 (404)");
}

#[test]
fn a_shop_that_is_away_or_hangs_costs_an_attempt_with_its_reason() {
    let shop = counter::open();
    shop.books().place_order("A-1", &[]);
    let away = counter::module_at("order-close", &counter::nobody(), "", &[]).run(&event("A-1"));
    assert_eq!(away.verdict(), "nack", "{away:?}");
    counter::order_fault(&shop, "/orders/A-1", r#""hang""#);
    let hung = module(&shop, &[]).run(&event("A-1").ttr_ms(400));
    assert_eq!(hung.verdict(), "nack", "{hung:?}");
    for run in [away, hung] {
        assert!(run.reason().starts_with("the shop: "), "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");
    }
}

#[test]
fn a_wrong_configuration_does_not_cost_the_order() {
    let shop = counter::open();
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
    let wrong = counter::module_at("order-close", &shop.origin(), "wrong", &[]);
    let run = wrong.run(&event("A-1042"));
    assert_eq!((run.verdict(), run.reason()), ("nack", "the shop refused the token (401)"));
    let elsewhere = counter::module_at("order-close", "http://shop.example", "", &[]);
    assert_eq!(elsewhere.run(&event("A-1042")).verdict(), "nack", "not granted");
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    let shop = counter::open();
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
        (r#"{"order":""}"#, "no name of 1 to 64"),
        (r#"{"order":".."}"#, "no name of 1 to 64"),
        (r#"{"order":"A 1\nverdict=ack"}"#, "no name of 1 to 64"),
        (r#"{"order":42,"shop":"a\tb"}"#, "the shop"),
        (r#"{"order":42,"amount":149.9}"#, "expected a string"),
        (r#"{"order":42,"amount":"149,90"}"#, "no decimal number"),
        (r#"{"order":42,"amount":"-5"}"#, "no decimal number"),
        (r#"{"order":42,"amount":"5."}"#, "no decimal number"),
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
