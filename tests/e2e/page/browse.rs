//! The lists of jobs: pages, search by id and header, a selection and what is done with it, jobs that are left as they
//! are; and the API behind it.

use std::net::SocketAddr;

use duebox_harness::{Daemon, eventually};
use serde_json::{Value, json};

use super::browser::{Browser, DESK, PHONE, Window};
use super::in_browser::{is_sound, keep_all, opened};
use super::views::broken_rules;
use crate::support::client::{address, ask, fixture, get, post, token};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;

const JOBS: usize = 130;

/// A paused topic with 130 dead jobs; every eighth is of the customer acme.
fn with_dead_jobs() -> (Fixture, Daemon, SocketAddr) {
    let fixture = Fixture::new();
    fixture.write("send.wat", Handler::logs("no").nacks().wat());
    fixture.manifest("", &[topic("invoice.send", "send.wat", "max_attempts = 1")]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let job = |n: usize| {
        let customer = if n.is_multiple_of(8) { "acme" } else { "bolt" };
        json!({ "id": format!("job-{n}"), "options": { "headers": { "customer": customer } } })
    };
    let jobs: Vec<Value> = (1..=JOBS).map(job).collect();
    assert_eq!(post(at, "/v1/topics/invoice.send/jobs", &json!(jobs).to_string()).status, 200);
    eventually("all are dead", || number(at, "dead") == JOBS as u64);
    assert_eq!(post(at, "/v1/topics/invoice.send/pause", "").status, 200);
    (fixture, daemon, at)
}

/// The jobs of a state.
fn number(at: SocketAddr, state: &str) -> u64 {
    get(at, "/v1/topics/invoice.send").json()[state].as_u64().unwrap()
}

/// Checks a view with axe-core, in both themes.
fn is_accessible(browser: &Browser, name: &str) {
    for is_dark in [false, true] {
        browser.resize(Window { is_dark, ..DESK });
        let broken = broken_rules(browser);
        assert!(broken.is_empty(), "{name}, dark: {is_dark}: {broken:#?}");
    }
    browser.resize(DESK);
}

/// Waits until so many jobs are listed.
fn lists(browser: &Browser, jobs: usize) {
    let rows = "document.querySelectorAll('#browse tbody tr').length";
    browser.wait(&format!("{jobs} jobs are listed"), &format!("{rows} === {jobs}"));
}

#[test]
fn dead_jobs_are_paged_searched_and_requeued_with_what_was_left() {
    let (_fixture, _daemon, at) = with_dead_jobs();
    // One of them has a live namesake.
    assert_eq!(post(at, "/v1/topics/invoice.send/jobs", r#"{"id":"job-8"}"#).status, 201);
    let browser = opened(at, "#/topics/invoice.send");
    browser.click("#states [data-state=dead]");
    lists(&browser, 50);
    browser.reads("#browse tbody", "nack");
    keep_all(&browser, "browse-dead");
    is_accessible(&browser, "browse");
    browser.click("#next-page");
    browser.wait("the second page", "location.hash.includes('after=')");
    browser.click("#next-page");
    lists(&browser, 30);
    browser.click("#first-page");
    lists(&browser, 50);
    // A header finds the jobs of one customer; the search is in the link.
    browser.write("#search-header", "customer=acme");
    browser.click("#search");
    browser.reads("#browse-note", "16 jobs found");
    lists(&browser, 16);
    assert_eq!(
        browser.run("return location.hash"),
        "#/topics/invoice.send/browse/dead?header=customer%3Dacme"
    );
    browser.click("#select-page");
    browser.reads("#selected", "16 selected");
    keep_all(&browser, "browse-selected");
    is_accessible(&browser, "a selection");
    browser.click("#do-requeue");
    browser.reads("dialog", "Requeue 16 dead jobs of invoice.send?");
    browser.click("#no");
    browser.is_gone("dialog");
    assert_eq!(number(at, "dead"), JOBS as u64);
    browser.click("#do-requeue");
    browser.click("#yes");
    browser.reads("#work-status", "15 requeued, 1 left as it is");
    browser.reads("#work-left", "job-8: a live job has its id");
    keep_all(&browser, "browse-left");
    is_accessible(&browser, "jobs that were left");
    browser.click("#work-close");
    browser.is_gone("dialog");
    assert_eq!((number(at, "dead"), number(at, "ready")), (JOBS as u64 - 15, 16));
    is_sound(&browser);
}

#[test]
fn all_that_match_are_purged_or_cancelled_and_the_keyboard_is_enough() {
    let (_fixture, _daemon, at) = with_dead_jobs();
    let browser = opened(at, "#/topics/invoice.send/browse/dead");
    lists(&browser, 50);
    // One job is selected with keys, and an id opens in whatever state it is.
    browser.press("j");
    browser.press("x");
    browser.reads("#selected", "1 selected");
    browser.press("x");
    browser.reads("#selected", "Select jobs");
    browser.write("#search-id", "job-77");
    browser.click("#open-id");
    browser.reads("#job-title", "job-77");
    browser.run("history.back()");
    lists(&browser, 50);
    // All of them, over the pages: the topic's name is asked for.
    browser.click("#select-page");
    browser.click("#select-match");
    browser.reads("#selected", "All 130 dead jobs are selected");
    browser.resize(PHONE);
    browser.keep("browse-all-phone-light");
    browser.resize(DESK);
    browser.click("#do-purge");
    browser.write("#typed", "invoice.sen");
    assert_eq!(browser.run("return document.querySelector('#yes').disabled"), true);
    browser.write("#typed", "d");
    browser.click("#yes");
    browser.reads("#work-status", "130 purged");
    browser.click("#work-close");
    browser.reads("#browse", "No dead jobs");
    assert_eq!(number(at, "dead"), 0);
    // Waiting jobs are cancelled by the start of their id.
    let jobs: Vec<Value> = (0..70).map(|n| json!({ "id": format!("a-{n}"), "in": "1h" })).collect();
    assert_eq!(post(at, "/v1/topics/invoice.send/jobs", &json!(jobs).to_string()).status, 200);
    assert_eq!(post(at, "/v1/topics/invoice.send/jobs", r#"{"id":"b","in":"1h"}"#).status, 201);
    browser.click("#states [data-state=pending]");
    lists(&browser, 50);
    browser.write("#search-id", "a-");
    browser.press(super::browser::ENTER);
    browser.reads("#browse-note", "50 jobs found");
    browser.click("#select-page");
    browser.click("#select-match");
    browser.click("#do-cancel");
    browser.click("#yes");
    browser.reads("#work-status", "70 cancelled");
    browser.click("#work-close");
    browser.reads("#browse", "No pending job matches");
    assert_eq!(number(at, "pending"), 1);
    is_sound(&browser);
}

#[test]
fn selected_jobs_are_changed_one_by_one_under_the_scope_of_the_action() {
    let (fixture, _daemon, at) = fixture("[topics.mail]\n");
    let send = |action: &str, ids: Value| {
        let path = format!("/v1/topics/mail/selected/{action}");
        post(at, &path, &json!({ "ids": ids }).to_string())
    };
    let jobs = r#"[{"id":"1"},{"id":"2","in":"1h"},{"id":"3","in":"1h"},{"id":"4"}]"#;
    assert_eq!(post(at, "/v1/topics/mail/jobs", jobs).status, 200);
    let leased = ask(at, "POST /v1/topics/mail/leases?max=2", &[], b"").json();
    let drop = json!({ "token": leased["jobs"][0]["token"], "reason": "never" });
    assert_eq!(post(at, "/v1/topics/mail/jobs/1/drop", &drop.to_string()).status, 200);
    // 1 is dead, 2 and 3 wait, 4 runs.
    let cancelled = send("cancel", json!(["1", "2", "4", "none"])).json();
    assert_eq!((&cancelled["done"], &cancelled["running"]), (&2.into(), &1.into()), "{cancelled}");
    let left: Vec<&str> =
        cancelled["left"].as_array().unwrap().iter().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(left, ["1", "none"]);
    let requeued = send("requeue", json!(["1", "3"])).json();
    assert_eq!((&requeued["done"], &requeued["left"][0]["id"]), (&1.into(), &"3".into()));
    let purged = send("purge", json!(["1"])).json();
    assert_eq!(
        (&purged["done"], &purged["left"][0]["reason"]),
        (&0.into(), &"it is not dead".into())
    );
    for bad in [json!([]), json!([""]), json!(vec!["x"; 201])] {
        assert_eq!(send("cancel", bad).problem(), "bad-request");
    }
    assert_eq!(
        post(at, "/v1/topics/none/selected/purge", r#"{"ids":["1"]}"#).problem(),
        "unknown-topic"
    );
    drop_tokens(&fixture);
}

/// A token that may push cancels, and neither requeues nor purges.
fn drop_tokens(fixture: &Fixture) {
    let (shop, table) = token(fixture, "shop", "push", "mail");
    fixture.write("tokens.toml", table);
    let server = "[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n".to_owned();
    let manifest = fixture.manifest_named("tokens-duebox.toml", "", &[server]);
    let daemon = crate::support::fixture::up(&manifest);
    let at = address(&daemon);
    let status = |action: &str| {
        let line = format!("POST /v1/topics/mail/selected/{action}");
        let headers = [("authorization", shop.as_str()), ("content-type", "application/json")];
        ask(at, &line, &headers, br#"{"ids":["3"]}"#).status
    };
    assert_eq!((status("cancel"), status("requeue"), status("purge")), (200, 403, 403));
}
