//! `payment-poll` on events a shop would send, malformed ones included.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module, Run};

fn module() -> Module {
    Module::built("payment-poll", BTreeMap::new())
}

fn event(states: &str) -> Attempt {
    Attempt::new(format!(
        r#"{{"payment":{{"id":"pay_81","order":42,"amount":"19.90","currency":"EUR",
        "provider":{{"name":"Kasse","note":"Grüße"}},{states}}}}}"#
    ))
}

#[test]
fn a_payment_is_followed_until_it_is_paid() {
    let module = module();
    let job = event(r#""states":["open","pending","paid"]"#);
    let runs = [1, 2, 3, 8].map(|look| module.run(&job.clone().number(look)));
    assert_eq!(runs.each_ref().map(Run::verdict), ["nack", "nack", "ack", "ack"]);
    let [first, _, third, _] = &runs;
    assert_eq!(first.retry_after_ms(), None, "the topic's schedule decides");
    assert_eq!(first.reason(), "the payment pay_81 is still open at look 1 of 8");
    assert_eq!(
        first.verdict_line(),
        "info verdict=nack payment=pay_81 state=open last_attempt=false"
    );
    assert_eq!(third.verdict_line(), "info verdict=ack payment=pay_81 state=paid");
}

#[test]
fn a_final_failure_is_dropped() {
    let module = module();
    for state in ["failed", "cancelled", "expired", "refused"] {
        let run = module.run(&event(&format!(r#""state":"{state}""#)));
        assert_eq!(run.verdict(), "drop", "{run:?}");
        assert_eq!(run.reason(), format!("the payment pay_81 is {state}"));
        assert!(run.verdict_line().starts_with("info verdict=drop payment=pay_81"), "{run:?}");
    }
}

#[test]
fn the_last_look_says_that_it_gives_up() {
    let module = module();
    let job = event(r#""state":"open""#);
    let seventh = module.run(&job.clone().number(7));
    assert!(!seventh.lines.iter().any(|line| line.starts_with("warn ")), "{seventh:?}");
    let eighth = module.run(&job.number(8));
    assert_eq!(eighth.verdict(), "nack");
    assert_eq!(
        eighth.lines.first().map(String::as_str),
        Some("warn giving up on the payment pay_81: still open at look 8 of 8")
    );
    assert!(eighth.verdict_line().ends_with("last_attempt=true"), "{eighth:?}");
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    let module = module();
    let deep = "[".repeat(100_000);
    for (payload, why) in [
        ("", "malformed JSON at byte 0"),
        ("paid", "malformed JSON at byte 0"),
        (r#"{"payment":{"id":"p","state":"paid"}"#, "malformed JSON at byte 36"),
        (r#"{"payment":{"id":"p","id":"q","state":"paid"}}"#, "every field once"),
        ("[1]", r#""payment" is missing"#),
        (r#"{"payment":"pay_81"}"#, r#""payment" is missing or no object"#),
        (r#"{"payment":{"state":"paid"}}"#, r#""payment.id""#),
        (r#"{"payment":{"id":81,"state":"paid"}}"#, r#""payment.id""#),
        (r#"{"payment":{"id":"a b","state":"paid"}}"#, r#""payment.id""#),
        (r#"{"payment":{"id":"p"}}"#, "neither"),
        (r#"{"payment":{"id":"p","states":[]}}"#, "neither"),
        (r#"{"payment":{"id":"p","states":"paid"}}"#, "neither"),
        (r#"{"payment":{"id":"p","states":["open",1]}}"#, "neither"),
        (r#"{"payment":{"id":"p","state":"paid?"}}"#, "is not known"),
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
fn a_word_of_the_provider_cannot_forge_a_log_line() {
    let run = module().run(&event(r#""state":"x\nverdict=ack""#));
    assert_eq!(run.verdict(), "drop");
    assert!(run.verdict_line().starts_with("info verdict=drop"), "{run:?}");
}
