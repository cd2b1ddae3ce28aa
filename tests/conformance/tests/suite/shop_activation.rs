//! `shop-activation` with the test shop: the messages it sends, faults, and malformed events.

use std::sync::OnceLock;

use duebox_conformance::{Attempt, Module};
use duebox_shop::{Message, Shop};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::shop;

/// The handler with `days` set to seven, and the shop. A Go module takes seconds to compile, so all
/// tests share both, and each job has its own name.
fn fixture() -> &'static (Module, Shop) {
    static STAGE: OnceLock<(Module, Shop)> = OnceLock::new();
    STAGE.get_or_init(|| {
        let shop = shop::open();
        (shop::module("shop-activation", &shop, &[]), shop)
    })
}

fn module() -> &'static Module {
    &fixture().0
}

/// An event of a shop that opened long ago and has no goods, with some fields changed.
fn shop(changes: Value) -> Attempt {
    let mut shop = json!({
        "id": "s-7", "name": "Bramble & Co", "locale": "en-GB", "status": "open", "goods": 0,
        "opened_at": "2025-01-02T09:00:00+01:00", "plan": {"name": "free"},
        "owner": {"name": "Ada", "email": "ada@bramble.example"},
    });
    if let (Some(fields), Value::Object(changes)) = (shop.as_object_mut(), changes) {
        fields.extend(changes);
    }
    Attempt::new(json!({"event": "shop.opened", "shop": shop}).to_string())
}

/// The same event as a job of this name, which is also its message's key.
fn named(name: &str, changes: Value) -> Attempt {
    Attempt { id: name.to_owned(), ..shop(changes) }
}

/// The messages sent for the job of this name.
fn sent(name: &str) -> Vec<Message> {
    let key = format!("conformance/{name}");
    let books = fixture().1.books();
    books.messages().iter().filter(|message| message.key == key).cloned().collect()
}

#[test]
fn the_message_is_in_the_shops_language() {
    let module = module();
    for (locale, language, subject, greeting) in [
        ("en-GB", "en", "Bramble & Co is open, and waiting for its first goods", "Dear Ada,"),
        ("de", "de", "Bramble & Co ist offen und wartet auf die ersten Waren", "Guten Tag Ada,"),
        ("zh_CN", "zh", "Bramble & Co 已开业，等待上架第一件商品", "Ada，您好："),
        ("fr", "en", "Bramble & Co is open, and waiting for its first goods", "Dear Ada,"),
        ("", "en", "Bramble & Co is open, and waiting for its first goods", "Dear Ada,"),
    ] {
        let name = format!("in-{locale}");
        let run = module.run(&named(&name, json!({"locale": locale})));
        assert_eq!(run.verdict(), "ack", "{run:?}");
        assert_eq!(run.verdict_line(), "info verdict=ack shop=s-7 message=true");
        let [message] = &sent(&name)[..] else { panic!("not one message: {run:?}") };
        assert_eq!(message.recipient, "ada@bramble.example");
        assert_eq!((message.locale.as_str(), message.subject.as_str()), (language, subject));
        let text = &message.text;
        assert!(text.starts_with(greeting) && text.contains("Bramble & Co"), "{text}");
    }
}

#[test]
fn every_other_response_of_the_api_has_a_verdict() {
    let shop = shop::open();
    let module = shop::module("shop-activation", &shop, &[]);
    for (status, verdict) in [
        (400, "drop"),
        (404, "drop"),
        (422, "drop"),
        (401, "nack"),
        (403, "nack"),
        (408, "nack"),
        (429, "nack"),
        (500, "nack"),
        (302, "nack"),
    ] {
        shop::inject_fault(&shop, "/messages", &format!(r#"{{"answer":{{"status":{status}}}}}"#));
        let run = module.run(&self::shop(json!({})));
        assert_eq!((run.verdict(), run.retry_after_ms()), (verdict, None), "{status}: {run:?}");
        let begin = format!("info verdict={verdict} shop=s-7 reason=");
        assert!(run.verdict_line().starts_with(&begin), "{run:?}");
    }
    let busy = r#"{"answer":{"status":429,"retry_after":"3"}}"#;
    shop::inject_fault(&shop, "/messages", busy);
    assert_eq!(module.run(&self::shop(json!({}))).retry_after_ms(), Some(3_000));
    shop::inject_fault(&shop, "/messages", r#""hang""#);
    let hung = module.run(&self::shop(json!({})).ttr_ms(2_000));
    assert_eq!(hung.verdict(), "nack", "{hung:?}");
    assert!(hung.reason().starts_with("the shop's API: "), "{hung:?}");
    assert!(shop.books().messages().is_empty());

    // The response is lost: the next attempt asks again, and the message is sent once.
    shop::inject_fault(&shop, "/messages", r#""lost""#);
    let job = self::shop(json!({}));
    let verdicts = [1, 2].map(|attempt| module.run(&job.clone().number(attempt)).verdict());
    assert_eq!(verdicts, ["nack", "ack"]);
    assert_eq!(shop.books().messages().len(), 1);
    let effects: Vec<bool> = shop.books().ledger().iter().map(|entry| entry.effect).collect();
    assert_eq!(effects, [true, false]);
}

#[test]
fn a_shop_with_goods_needs_no_message() {
    let run = module().run(&named("goods", json!({"goods": 3})));
    assert_eq!(run.verdict(), "ack");
    assert_eq!(run.verdict_line(), "info verdict=ack shop=s-7 message=false goods=3");
    assert_eq!(sent("goods"), []);
}

#[test]
fn a_shop_that_opened_recently_is_retried_later() {
    let year_2200 = json!({"opened_at": "2200-01-01T00:00:00Z"});
    let run = module().run(&named("early", year_2200));
    assert_eq!(run.verdict(), "nack", "{run:?}");
    assert_eq!(run.retry_after_ms(), Some(365 * 86_400_000), "clamped to a year");
    assert_eq!(run.reason(), "the shop s-7 has opened too recently");
    assert_eq!(sent("early"), []);

    let day_ms = 86_400_000;
    let run = module().run(&opened_ago("young", SignedDuration::from_hours(24)));
    let wait_ms = run.retry_after_ms().unwrap_or_else(|| panic!("no wait: {run:?}"));
    assert!((5 * day_ms..=6 * day_ms).contains(&wait_ms), "{wait_ms}");
}

#[test]
fn the_days_are_counted_from_the_opening() {
    let run = module().run(&opened_ago("nine", SignedDuration::from_hours(24 * 9 + 1)));
    assert_eq!(run.verdict(), "ack", "{run:?}");
    let texts: Vec<String> = sent("nine").into_iter().map(|message| message.text).collect();
    assert!(texts.concat().contains("has been open for 9 days"), "{texts:?}");
}

/// An event of a shop that opened this long ago.
fn opened_ago(name: &str, ago: SignedDuration) -> Attempt {
    named(name, json!({"opened_at": (Timestamp::now() - ago).to_string()}))
}

#[test]
fn a_closed_shop_gets_no_message() {
    let run = module().run(&shop(json!({"status": "closed"})));
    assert_eq!((run.verdict(), run.reason()), ("drop", "the shop s-7 is closed"));
    assert!(run.verdict_line().starts_with("info verdict=drop reason="), "{run:?}");
}

#[test]
fn an_invalid_configuration_does_not_drop_the_job() {
    for days in ["366", "1.5"] {
        let run =
            shop::module("shop-activation", &fixture().1, &[("days", days)]).run(&shop(json!({})));
        assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", None), "{days}: {run:?}");
        assert!(run.reason().contains("\"days\""), "{run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack"), "{run:?}");
    }
}

#[test]
fn malformed_events_are_dropped_with_the_reason() {
    let module = module();
    for (job, why) in [
        (Attempt::new(""), "unexpected end"),
        (Attempt::new("shop s-7"), "invalid character"),
        (Attempt::new("{}"), r#""shop" is missing"#),
        (Attempt::new(r#"{"shop":null}"#), r#""shop" is missing"#),
        (Attempt::new(r#"{"shop":{}} x"#), "after top-level value"),
        (shop(json!({"id": ""})), "the shop's id"),
        (shop(json!({"id": "s 7\nverdict=ack"})), "the shop's id"),
        (shop(json!({"id": 7})), "cannot unmarshal number"),
        (shop(json!({"name": " "})), "the shop's name"),
        (shop(json!({"name": "a\r\nBcc: b@c.d"})), "the shop's name"),
        (shop(json!({"status": "asleep"})), "the shop's status"),
        (shop(json!({"goods": null})), r#""shop.goods" is missing"#),
        (shop(json!({"goods": -1})), "must be 0 or more"),
        (shop(json!({"goods": 1.5})), "cannot unmarshal number"),
        (shop(json!({"opened_at": "yesterday"})), "parsing time"),
        (shop(json!({"opened_at": null})), r#""shop.opened_at" is missing"#),
        (shop(json!({"owner": {"email": "ada"}})), "the owner's address"),
        (shop(json!({"owner": {"email": "ada@bramble"}})), "the owner's address"),
        (shop(json!({"owner": {"email": "a da@b.example"}})), "the owner's address"),
        (shop(json!({"owner": null})), "the owner's address"),
    ] {
        let run = module.run(&job);
        let payload = String::from_utf8_lossy(&job.payload);
        assert_eq!(run.verdict(), "drop", "{payload}: {run:?}");
        assert!(run.reason().starts_with("malformed event: "), "{payload}: {run:?}");
        assert!(run.reason().contains(why), "{payload}: {run:?}");
        assert!(run.verdict_line().starts_with("info verdict=drop reason="), "{run:?}");
    }
}
