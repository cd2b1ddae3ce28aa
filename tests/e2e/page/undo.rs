//! Actions of the page that can be undone: pause and resume, the cancelling of a waiting job, and "run now".

use duebox_harness::eventually;
use serde_json::{Value, json};

use super::browser::Browser;
use super::in_browser::{is_sound, keep_all, opened};
use crate::support::client::{fixture, get, post};

/// Undoes the action that said this.
fn undo(browser: &Browser, said: &str) {
    browser.reads(".toast", said);
    browser.click(".toast:last-child .undo");
}

#[test]
fn pause_cancel_and_run_now_are_undone_from_their_message() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    let job = json!({ "id": "later", "in": "1h", "payload": { "order": 7 },
        "options": { "priority": "high", "headers": { "customer": "acme" } } });
    assert_eq!(post(at, "/v1/topics/mail/jobs", &job.to_string()).status, 201);
    let path = "/v1/topics/mail/jobs/later";
    let before = get(at, path).json();
    let browser = opened(at, "#/topics/mail");
    let is_paused = || get(at, "/v1/topics/mail").json()["paused"] == true;
    browser.click("#pause");
    browser.click("#yes");
    undo(&browser, "mail is paused");
    eventually("it is resumed", || !is_paused());
    browser.click("#pause");
    browser.click("#yes");
    browser.click("#resume");
    undo(&browser, "mail is resumed");
    eventually("it is paused again", is_paused);

    browser.click("#live-jobs [data-id='later']");
    browser.click("#drop");
    browser.click("#yes");
    browser.reads(".toast", "later is cancelled");
    eventually("it is gone", || get(at, path).status == 404);
    keep_all(&browser, "undo");
    undo(&browser, "later is cancelled");
    eventually("it is there again", || get(at, path).status == 200);
    let after = get(at, path).json();
    let same = |field: &str| assert_eq!(after[field], before[field], "{field}: {after}");
    ["state", "due_at_ms", "payload", "options"].into_iter().for_each(same);

    browser.click("#live-jobs [data-id='later']");
    browser.click("#run-now");
    let due = || get(at, path).json()["due_at_ms"].clone();
    eventually("it is due now", || due() != before["due_at_ms"]);
    undo(&browser, "runs as soon as");
    eventually("it is due later", || due() == before["due_at_ms"]);
    is_sound(&browser);
}

/// A job that failed would get all its attempts again, and a purge is final: neither offers to undo it.
#[test]
fn what_cannot_be_undone_does_not_offer_it() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\nbackoff = [\"1h\"]\n");
    assert_eq!(post(at, "/v1/topics/mail/jobs", r#"{"id":"ill"}"#).status, 201);
    let leased = post(at, "/v1/topics/mail/leases", "").json();
    let body = json!({ "token": leased["jobs"][0]["token"], "reason": "shut" });
    assert_eq!(post(at, "/v1/topics/mail/jobs/ill/nack", &body.to_string()).status, 200);
    let browser = opened(at, "#/topics/mail");
    browser.click("#live-jobs [data-id='ill']");
    browser.click("#drop");
    browser.click("#yes");
    browser.reads(".toast", "ill is cancelled");
    assert_eq!(browser.run("return document.querySelectorAll('.undo').length"), Value::from(0));
    is_sound(&browser);
}
