//! `payment-poll` with the test shop: payments in every state, faults, and malformed events.

use duebox_conformance::{Attempt, Module, Run};
use duebox_shop::Shop;

use crate::shop;

fn module(shop: &Shop) -> Module {
    shop::module("payment-poll", shop, &[])
}

/// An event as a shop writes it.
fn event(id: &str) -> Attempt {
    Attempt::new(format!(
        r#"{{"payment":{{"id":"{id}","order":42,"amount":"19.90","currency":"EUR",
        "provider":{{"name":"Kasse","note":"Grüße"}}}}}}"#
    ))
}

#[test]
fn a_payment_is_followed_until_it_is_paid() {
    let shop = shop::open();
    shop.books().start_payment("pay_81", &["open", "pending", "paid"]);
    let (module, job) = (module(&shop), event("pay_81"));
    let runs = [1, 2, 3, 8].map(|attempt| module.run(&job.clone().number(attempt)));
    assert_eq!(runs.each_ref().map(Run::verdict), ["nack", "nack", "ack", "ack"]);
    let [first, _, third, _] = &runs;
    assert_eq!(first.retry_after_ms(), None, "the topic's schedule decides");
    assert_eq!(first.reason(), "the payment pay_81 is still open at attempt 1 of 8");
    assert_eq!(
        first.verdict_line(),
        "info verdict=nack payment=pay_81 state=open last_attempt=false"
    );
    assert_eq!(third.verdict_line(), "info verdict=ack payment=pay_81 state=paid");
}

#[test]
fn a_final_failure_is_dropped() {
    let shop = shop::open();
    let module = module(&shop);
    for state in ["failed", "cancelled", "expired", "refused"] {
        shop.books().start_payment("pay_81", &[state]);
        let run = module.run(&event("pay_81"));
        assert_eq!(run.verdict(), "drop", "{run:?}");
        assert_eq!(run.reason(), format!("the payment pay_81 is {state}"));
        assert!(run.verdict_line().starts_with("info verdict=drop payment=pay_81"), "{run:?}");
    }
}

#[test]
fn the_last_attempt_logs_that_it_gives_up() {
    let shop = shop::open();
    shop.books().start_payment("pay_81", &["open"]);
    let (module, job) = (module(&shop), event("pay_81"));
    let seventh = module.run(&job.clone().number(7));
    assert!(!seventh.lines.iter().any(|line| line.starts_with("warn ")), "{seventh:?}");
    let eighth = module.run(&job.number(8));
    assert_eq!(eighth.verdict(), "nack");
    assert_eq!(
        eighth.lines.first().map(String::as_str),
        Some("warn giving up on the payment pay_81: still open at attempt 8 of 8")
    );
    assert!(eighth.verdict_line().ends_with("last_attempt=true"), "{eighth:?}");
}

#[test]
fn every_other_response_of_the_api_has_a_verdict() {
    let shop = shop::open();
    shop.books().start_payment("p", &["paid"]);
    let module = module(&shop);
    for (status, verdict) in [
        (404, "drop"),
        (410, "drop"),
        (400, "drop"),
        (422, "drop"),
        (401, "nack"),
        (403, "nack"),
        (408, "nack"),
        (429, "nack"),
        (500, "nack"),
        (302, "nack"),
        (200, "nack"),
    ] {
        shop::inject_fault(&shop, "/payments", &format!(r#"{{"answer":{{"status":{status}}}}}"#));
        let run = module.run(&event("p"));
        assert_eq!((run.verdict(), run.retry_after_ms()), (verdict, None), "{status}: {run:?}");
        let begin = format!("info verdict={verdict} payment=p reason=");
        assert!(run.verdict_line().starts_with(&begin), "{run:?}");
    }
    let busy = r#"{"answer":{"status":503,"retry_after":"9"}}"#;
    shop::inject_fault(&shop, "/payments/p", busy);
    assert_eq!(module.run(&event("p")).retry_after_ms(), Some(9_000));
    assert_eq!(module.run(&event("none")).reason(), "there is no payment none (404)");
}

#[test]
fn an_unreachable_hanging_or_unconfigured_api_is_a_nack() {
    let shop = shop::open();
    let away =
        shop::module_at("payment-poll", &shop::unreachable_origin(), "", &[]).run(&event("p"));
    shop::inject_fault(&shop, "/payments", r#""hang""#);
    let hung = module(&shop).run(&event("p").ttr_ms(400));
    let unnamed = Module::built("payment-poll", [].into()).run(&event("p"));
    let locked = shop::module_at("payment-poll", &shop.origin(), "wrong", &[]).run(&event("p"));
    for (run, why) in [
        (away, "the shop's API: "),
        (hung, "the shop's API: "),
        (unnamed, r#"the configuration value "shop" is missing"#),
        (locked, "the shop's API refused the token (401)"),
    ] {
        assert_eq!(run.verdict(), "nack", "{run:?}");
        assert!(run.reason().starts_with(why), "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack payment=p reason="), "{run:?}");
    }
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    let module = module(&shop::open());
    let deep = "[".repeat(100_000);
    for (payload, why) in [
        ("", "malformed JSON at byte 0"),
        ("paid", "malformed JSON at byte 0"),
        (r#"{"payment":{"id":"p","state":"paid"}"#, "malformed JSON at byte 36"),
        (r#"{"payment":{"id":"p","id":"q","state":"paid"}}"#, "every field once"),
        ("[1]", r#""payment" is missing"#),
        (r#"{"payment":"pay_81"}"#, r#""payment" is missing or not an object"#),
        (r#"{"payment":{"state":"paid"}}"#, r#""payment.id""#),
        (r#"{"payment":{"id":81,"state":"paid"}}"#, r#""payment.id""#),
        (r#"{"payment":{"id":"a b","state":"paid"}}"#, r#""payment.id""#),
        (r#"{"payment":{"id":".."}}"#, r#""payment.id""#),
        (deep.as_str(), "at most 64 levels"),
    ] {
        let run = module.run(&Attempt::new(payload));
        assert_eq!(run.verdict(), "drop", "{run:?}");
        assert!(run.reason().starts_with("malformed event: "), "{run:?}");
        assert!(run.reason().contains(why), "{why}: {run:?}");
        assert!(run.verdict_line().starts_with("info verdict=drop reason="), "{run:?}");
    }
    let run = module.run(&Attempt::new([0x7b, 0xff, 0x7d]));
    assert_eq!(run.reason(), "malformed event: not UTF-8");
}

#[test]
fn a_state_of_the_provider_cannot_forge_a_log_line() {
    let shop = shop::open();
    let module = module(&shop);
    for word in ["x\nverdict=ack", "paid?", "lost", ""] {
        shop.books().start_payment("p", &[word]);
        let run = module.run(&event("p"));
        assert_eq!(run.verdict(), "nack", "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack payment=p reason="), "{run:?}");
        assert!(!run.verdict_line().contains('\n'), "{run:?}");
    }
}
