//! How the page learns of changes: by the event stream where events are kept and the session may read them, else by
//! polling; and not at all while it is hidden.

use super::browser::Browser;
use super::in_browser::{is_sound, opened};
use crate::support::client::{address, post, token};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;

/// Hides the page, or shows it again.
fn hide(browser: &Browser, is_hidden: bool) {
    browser.run(&format!(
        "Object.defineProperty(document, 'hidden', {{ configurable: true, value: {is_hidden} }}); \
         document.dispatchEvent(new Event('visibilitychange'))"
    ));
}

#[test]
fn events_are_followed_while_the_page_is_visible() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let keep = "done_retention = \"1h\"";
    fixture.manifest("events = 1000", &[topic("order.close", "work.wat", keep)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let browser = opened(at, "#/topics/order.close");
    browser.reads("#live", "live, by events");
    let events = "Number(/(\\d+) events/.exec(document.querySelector('#live').title)?.[1] ?? 0)";
    assert_eq!(post(at, "/v1/topics/order.close/jobs", r#"{"id":"1"}"#).status, 201);
    browser.reads("#states [data-state=done] b", "1");
    browser.wait("its push and its ack came as events", &format!("{events} >= 2"));
    browser.keep("live-events-desk-light");
    // A hidden page has no stream; a visible one opens it again.
    let ends = "performance.getEntriesByType('resource').filter((entry) => entry.name.includes('/v1/events')).length";
    let before = browser.run(&format!("return {ends}")).as_u64().unwrap();
    hide(&browser, true);
    browser.wait("the stream is closed", &format!("{ends} > {before}"));
    let seen = browser.run(&format!("return {events}")).as_u64().unwrap();
    assert_eq!(post(at, "/v1/topics/order.close/jobs", r#"{"id":"2"}"#).status, 201);
    hide(&browser, false);
    browser.reads("#states [data-state=done] b", "2");
    browser.reads("#live", "live, by events");
    assert_eq!(post(at, "/v1/topics/order.close/jobs", r#"{"id":"3"}"#).status, 201);
    browser.wait("it follows again", &format!("{events} > {seen}"));
    // A view without jobs needs no stream.
    browser.run("location.hash = '#/daemons'");
    browser.reads("#live", "live, by polling");
    is_sound(&browser);
}

#[test]
fn without_events_or_the_scope_for_them_the_page_polls() {
    let fixture = Fixture::new();
    let (clerk, table) = token(&fixture, "clerk", "read", "*");
    fixture.write("tokens.toml", table);
    let server = "[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n".to_owned();
    fixture.manifest("events = 1000", &[server]);
    let daemon = fixture.start();
    let browser = opened(address(&daemon), "");
    browser.write("#token", clerk.trim_start_matches("Bearer "));
    browser.click("#login");
    browser.reads("#live", "live, by polling");
    let asked = "performance.getEntriesByType('resource').filter((entry) => entry.name.includes('/v1/topics')).length";
    browser.wait("it asks again and again", &format!("{asked} > 2"));
}

#[test]
fn a_flood_of_events_ends_the_stream_and_the_page_polls() {
    let fixture = Fixture::new();
    fixture.manifest("events = 10000", &["[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let browser = opened(at, "#/topics/mail");
    browser.reads("#live", "live, by events");
    let jobs: Vec<String> = (0..1_000).map(|n| format!("{{\"id\":\"{n}\"}}")).collect();
    let jobs = format!("[{}]", jobs.join(","));
    assert_eq!(post(at, "/v1/topics/mail/jobs", &jobs).status, 200);
    browser.reads("#live", "live, by polling");
    browser.reads("#states [data-state=ready] b", "1,000");
    is_sound(&browser);
}
