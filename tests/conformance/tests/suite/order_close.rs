//! `order-close` on events a shop would send, malformed ones included.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module};

fn module(config: &[(&str, &str)]) -> Module {
    let config = config.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Module::built("order-close", config.collect::<BTreeMap<_, _>>())
}

/// An event as a shop writes it, with the payment in the given state.
fn event(payment: &str) -> Attempt {
    Attempt::new(format!(
        r#"{{"event":"order.unpaid","order":"A-1042","shop":"bramble","amount":"149.90",
        "currency":"EUR","created_at":"2026-11-21T09:30:00Z","items":[{{"sku":"tea","count":2}}],
        "payment":{payment}}}"#
    ))
}

#[test]
fn an_unpaid_order_is_closed() {
    let module = module(&[]);
    for payment in
        [r#"{"state":"unpaid"}"#, r#"{"state":"failed"}"#, r#"{"state":"expired"}"#, "{}"]
    {
        let run = module.run(&event(payment));
        assert_eq!(run.verdict(), "ack", "{payment}: {run:?}");
        let line = run.verdict_line();
        assert!(line.starts_with("info verdict=ack edition="), "{line}");
        assert!(line.contains("order=A-1042") && line.contains("closed=true"), "{line}");
        assert!(line.contains("amount=149.90EUR"), "{line}");
    }
}

#[test]
fn the_shortest_event_is_enough() {
    let run = module(&[]).run(&Attempt::new(r#"{"order":42}"#));
    assert_eq!(run.verdict(), "ack", "{run:?}");
    assert!(run.verdict_line().contains("order=42 "), "{run:?}");
}

#[test]
fn an_order_paid_meanwhile_stays() {
    let module = module(&[]);
    for payment in
        [r#"{"state":"paid","paid_at":"2026-11-21T09:58:00Z"}"#, r#"{"state":"refunded"}"#]
    {
        let run = module.run(&event(payment));
        assert_eq!(run.verdict(), "ack", "{payment}: {run:?}");
        assert!(run.verdict_line().contains("closed=false paid=true"), "{run:?}");
    }
}

#[test]
fn a_payment_in_processing_is_waited_for() {
    let run = module(&[]).run(&event(r#"{"state":"processing"}"#));
    assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", Some(120_000)));
    assert_eq!(run.reason(), "the payment of order A-1042 is still processing");
    assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");

    let run = module(&[("processing_wait_s", "0.5")]).run(&event(r#"{"state":"processing"}"#));
    assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", Some(500)));
}

#[test]
fn each_look_sees_what_the_provider_says_then() {
    let module = module(&[]);
    let job = event(r#"{"states":["processing","processing","paid"]}"#);
    let verdicts = [1, 2, 3, 4].map(|look| module.run(&job.clone().number(look)).verdict());
    assert_eq!(verdicts, ["nack", "nack", "ack", "ack"]);
}

#[test]
fn a_wrong_configuration_does_not_cost_the_order() {
    for wait in ["soon", "-1", "NaN", "31536001"] {
        let run = module(&[("processing_wait_s", wait)]).run(&event(r#"{"state":"processing"}"#));
        assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", None), "{wait}: {run:?}");
        assert!(run.reason().contains("processing_wait_s"), "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");
    }
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    let module = module(&[]);
    for (payload, why) in [
        ("", "EOF"),
        ("order 42", "expected value"),
        (r#"{"order":42"#, "EOF"),
        (r#"{"order":42} {"order":43}"#, "trailing characters"),
        ("[]", "invalid length 0"),
        (r#"{"id":42}"#, "missing field `order`"),
        (r#"{"order":-1}"#, "an order is named by a whole number or a text"),
        (r#"{"order":null}"#, "an order is named by a whole number or a text"),
        (r#"{"order":""}"#, "no name of 1 to 64"),
        (r#"{"order":"A 1\nverdict=ack"}"#, "no name of 1 to 64"),
        (r#"{"order":42,"shop":"a\tb"}"#, "the shop"),
        (r#"{"order":42,"amount":149.9}"#, "expected a string"),
        (r#"{"order":42,"amount":"149,90"}"#, "no decimal number"),
        (r#"{"order":42,"amount":"-5"}"#, "no decimal number"),
        (r#"{"order":42,"amount":"5."}"#, "no decimal number"),
        (r#"{"order":42,"currency":"euro"}"#, "three capital letters"),
        (r#"{"order":42,"payment":{"state":"lost"}}"#, "unknown variant `lost`"),
        (r#"{"order":42,"payment":"paid"}"#, "invalid type: string"),
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
