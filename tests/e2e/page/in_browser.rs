//! The page in a real browser: the life of a dead job, access by token, and the page with many topics or without
//! Redis. Screenshots are written to `target/page`.

use std::net::{Ipv4Addr, SocketAddr};

use duebox_harness::{Daemon, eventually, free_port};
use serde_json::json;

use super::browser::{Browser, DESK, ENTER, ESCAPE, PHONE, Window};
use crate::support::client::{address, ask, fixture, post, token};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::puppet::PARROT;

/// Script that would run if text were rendered as markup.
const MARKUP: &str = "<img src=x onerror=window.hacked=1>";
/// The same without spaces, for an id.
const MARKUP_ID: &str = "<img/src=x/onerror=window.hacked=1>";
/// How many requests the page has sent so far.
const REQUESTS: &str = "performance.getEntriesByType('resource').length";

fn url(at: SocketAddr, route: &str) -> String {
    format!("http://{at}/{route}")
}

/// Opens a browser on the page of a daemon without tokens.
pub(super) fn opened(at: SocketAddr, route: &str) -> Browser {
    let browser = Browser::start();
    browser.go(&url(at, route));
    browser
}

/// Takes screenshots in the light and the dark theme, on a desktop and on a phone.
pub(super) fn keep_all(browser: &Browser, name: &str) {
    for (place, window) in [("desk", DESK), ("phone", PHONE)] {
        for (light, is_dark) in [("light", false), ("dark", true)] {
            browser.resize(Window { is_dark, ..window });
            let is_wide = "document.documentElement.scrollWidth > innerWidth";
            assert_eq!(browser.run(&format!("return {is_wide}")), false, "{name} on a {place}");
            browser.keep(&format!("{name}-{place}-{light}"));
        }
    }
    browser.resize(DESK);
}

/// Checks that no text was rendered as markup and that the browser logged no error.
pub(super) fn is_sound(browser: &Browser) {
    assert!(browser.run("return window.hacked ?? null").is_null());
    assert_eq!(browser.run("return document.querySelectorAll('main img, dialog img').length"), 0);
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn a_dead_job_is_shown_requeued_and_acked() {
    let fixture = Fixture::new();
    fixture.write("close.wat", Handler::logs("the shop is shut").nacks().wat());
    fixture.manifest(
        "",
        &[topic("order.close", "close.wat", "max_attempts = 1"), "[topics.mail]\n".to_owned()],
    );
    let daemon = fixture.start();
    let browser = opened(address(&daemon), "");
    // Open the topic and push a job.
    browser.reads("#topics .c-topic", "order.close");
    browser.click("a[href='#/topics/order.close']");
    browser.reads("#name", "order.close");
    browser.reads("#history", "serves");
    browser.click("#push");
    browser.write("#payload", MARKUP);
    browser.write("#job-id", MARKUP_ID);
    browser.keep("push-desk-light");
    browser.click("#yes");
    // The job becomes dead, and the page shows why.
    browser.reads("#states [data-state=dead] b", "1");
    browser.click("#dead button.id");
    browser.reads("#job-title", MARKUP_ID);
    browser.reads("#reason", "nack");
    browser.reads("#log", "the shop is shut");
    browser.reads("#payload-text", MARKUP);
    keep_all(&browser, "dead-job");
    browser.press(ESCAPE);
    browser.is_gone("#job");
    // A fixed module serves.
    fixture.write("close.wat", Handler::logs("closed").wat());
    browser.wait(
        "the reload is reported",
        "document.querySelectorAll('#history li.good').length === 2",
    );
    browser.click("#dead button.id");
    browser.click("#requeue");
    browser.reads("#toasts", "is requeued");
    browser.reads("#attempts", "done");
    // A selection survives the updates of the page.
    browser.press("j");
    browser.wait("an attempt is marked", "document.activeElement.matches('.jobs button.id')");
    browser.run("window.marked = document.activeElement; window.asked = performance.now()");
    let later = "performance.getEntriesByType('resource').filter((entry) => \
        entry.startTime > window.asked && entry.name.includes('/jobs')).length > 1";
    browser.wait("it has looked again", later);
    assert_eq!(browser.run("return document.activeElement === window.marked"), true);
    browser.reads("#states [data-state=dead] b", "0");
    daemon.wait_for_line("the job is done", |line| {
        line.has("settled", "done") && line.has("job_id", MARKUP_ID)
    });
    keep_all(&browser, "topic");
    roll_back(&browser);
    browser.click("#home");
    browser.reads("#topics .c-topic", "mail");
    keep_all(&browser, "topics");
    is_sound(&browser);
}

/// A handler chooses its log lines and its reason, and a producer its payload.
#[test]
fn markup_of_a_handler_is_shown_as_text() {
    let fixture = Fixture::new();
    fixture.write("parrot.wat", PARROT);
    fixture.manifest("", &[topic("work", "parrot.wat", "")]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let body = json!({ "id": MARKUP_ID, "payload": MARKUP }).to_string();
    assert_eq!(post(at, "/v1/topics/work/jobs", &body).status, 201);
    daemon.wait_for_line("its death", |line| line.has("settled", "dead"));
    let browser = opened(at, "#/topics/work");
    browser.reads("#attempts", MARKUP_ID);
    browser.click("#dead button.id");
    browser.reads("#job-title", MARKUP_ID);
    browser.reads("#reason", MARKUP);
    browser.reads("#log", MARKUP);
    browser.reads("#payload-text", MARKUP);
    is_sound(&browser);
}

/// Rolls the module of the shown topic back, which needs a confirmation.
fn roll_back(browser: &Browser) {
    browser.click("#rollback");
    browser.reads("dialog", "Roll back order.close?");
    browser.click("#no");
    browser.is_gone("dialog");
    browser.click("#rollback");
    browser.click("#yes");
    browser.reads("#history", "rolled back by hand");
}

#[test]
fn destructive_actions_ask_first_and_show_the_count() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    assert_eq!(
        post(at, "/v1/topics/mail/jobs", r#"[{"id":"1"},{"id":"2"},{"id":"3"}]"#).status,
        200
    );
    let jobs = ask(at, "POST /v1/topics/mail/leases", &[], b"").json();
    for job in jobs["jobs"].as_array().unwrap() {
        let path = format!("/v1/topics/mail/jobs/{}/drop", job["id"].as_str().unwrap());
        let body = json!({ "token": job["token"], "reason": MARKUP });
        assert_eq!(post(at, &path, &body.to_string()).json()["result"], "dead");
    }
    assert_eq!(post(at, "/v1/topics/mail/jobs", r#"{"id":"later","in":"1h"}"#).status, 201);
    let browser = opened(at, "#/topics/mail");
    browser.reads("#dead .reason", MARKUP);
    let is_paused = || crate::support::client::get(at, "/v1/topics/mail").json()["paused"] == true;
    browser.click("#pause");
    browser.reads("dialog", "Pause mail?");
    browser.press(ESCAPE);
    browser.is_gone("dialog");
    assert!(!is_paused());
    browser.click("#pause");
    browser.click("#yes");
    browser.reads(".badge", "paused");
    assert!(is_paused());
    browser.click("#resume");
    eventually("it is resumed", || !is_paused());
    // One job is requeued, one is purged, and one is cancelled.
    browser.click("#requeue-all");
    browser.reads("dialog", "3 dead jobs will run again");
    browser.click("#no");
    browser.click("#dead [data-id='1']");
    browser.click("#forget");
    browser.reads("dialog.ask", "The dead job 1 of mail will be deleted");
    browser.click("#yes");
    browser.reads("#states [data-state=dead] b", "2");
    browser.click("#live-jobs [data-id='later']");
    browser.click("#drop");
    browser.click("#yes");
    browser.reads("#states [data-state=pending] b", "0");
    // A purge asks for the topic's name.
    browser.click("#purge");
    browser.write("#typed", "mai");
    assert_eq!(browser.run("return document.querySelector('#yes').disabled"), true);
    browser.keep("purge-desk-light");
    browser.write("#typed", "l");
    browser.click("#yes");
    browser.reads("#toasts", "2 dead jobs purged");
    browser.reads("#states [data-state=dead] b", "0");
    is_sound(&browser);
}

/// A daemon with an admin token and a token that may only push to `mail`.
fn guarded() -> (Fixture, Daemon, SocketAddr, [String; 2]) {
    let fixture = Fixture::new();
    let (boss, boss_table) = token(&fixture, "boss", "admin", "*");
    let (shop, shop_table) = token(&fixture, "shop", "push", "mail");
    fixture.write("tokens.toml", format!("{boss_table}\n{shop_table}\n"));
    let topics = "[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n[topics.fax]\n";
    fixture.manifest("", &[topics.to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let bare = |token: String| token.trim_start_matches("Bearer ").to_owned();
    (fixture, daemon, at, [bare(boss), bare(shop)])
}

#[test]
fn a_session_is_closed_to_scripts_and_other_sites() {
    let (_fixture, _daemon, at, [boss, shop]) = guarded();
    let browser = opened(at, "");
    browser.write("#token", "duebox_guess");
    browser.click("#login");
    browser.reads("#wrong", "The token is unknown");
    browser.resize(Window { is_dark: true, ..PHONE });
    browser.keep("login-phone-dark");
    browser.resize(DESK);
    browser.run("document.querySelector('#token').value = ''");
    browser.write("#token", &boss);
    browser.click("#login");
    browser.reads("#topics .c-topic", "fax");
    let cookies = browser.cookies();
    let cookie = &cookies[0];
    assert_eq!((cookies.len(), &cookie["httpOnly"]), (1, &true.into()), "{cookies:?}");
    assert_eq!(cookie["sameSite"], "Strict", "{cookie}");
    assert_eq!(browser.run("return document.cookie"), "");
    // The cookie alone does not authorize a change.
    let pair =
        format!("{}={}", cookie["name"].as_str().unwrap(), cookie["value"].as_str().unwrap());
    let host = at.to_string();
    let pause = |headers: &[(&str, &str)]| {
        let base = [("cookie", pair.as_str()), ("host", host.as_str())];
        ask(at, "POST /v1/topics/mail/pause", &[&base, headers].concat(), b"").status
    };
    assert_eq!(pause(&[]), 403);
    assert_eq!(pause(&[("x-duebox-page", "1")]), 403);
    assert_eq!(pause(&[("x-duebox-page", "1"), ("sec-fetch-site", "same-site")]), 403);
    assert_eq!(pause(&[("sec-fetch-site", "same-origin")]), 403);
    assert_eq!(pause(&[("x-duebox-page", "1"), ("sec-fetch-site", "same-origin")]), 200);
    // The page's own request without its header is refused too.
    let bare = "const done = arguments[0]; fetch('/v1/topics/mail/resume', { method: 'POST' }).then((a) => done(a.status));";
    assert_eq!(browser.run_later(bare), 403);
    assert!(browser.complaints().iter().any(|printed| printed.contains("403")));
    // After the logout the cookie is invalid.
    browser.click("#logout");
    browser.wait("the login is there", "document.querySelector('#token')");
    assert!(browser.cookies().is_empty());
    assert_eq!(pause(&[("x-duebox-page", "1"), ("sec-fetch-site", "same-origin")]), 401);
    // Another token sees its topic and its permitted actions.
    browser.write("#token", &shop);
    browser.click("#login");
    browser.reads("#topics .c-topic", "mail");
    assert_eq!(browser.run("return document.querySelectorAll('#topics tbody tr').length"), 1);
    browser.click("a[href='#/topics/mail']");
    browser.wait("it may push", "document.querySelector('#push')");
    assert_eq!(browser.run("return document.querySelectorAll('#pause, #dead').length"), 0);
}

#[test]
fn a_thousand_topics_take_one_request_and_only_visible_rows_are_drawn() {
    let (fixture, _daemon, at) = fixture("[topics.mail]\n");
    let names: Vec<String> = (0..1_000).map(|n| format!("topic-{n:04}")).collect();
    fixture.redis.pipe(&format!("SADD duebox:topics {}\n", names.join(" ")));
    let browser = opened(at, "");
    let rows = "document.querySelectorAll('#topics tbody tr').length";
    browser.wait("all are listed", &format!("{rows} === 1001"));
    // Idle topics are folded.
    browser.reads("#fold", "Show 1,001 idle topics");
    let visible = "document.querySelectorAll('#topics tbody tr:not([hidden])').length";
    assert_eq!(browser.run(&format!("return {visible}")), 0);
    browser.click("#fold");
    browser.wait("they are shown", &format!("{visible} === 1001"));
    browser
        .wait("visible rows are drawn", "document.querySelectorAll('#topics tbody td').length > 0");
    let drawn = browser.run("return document.querySelectorAll('#topics tbody tr:has(td)').length");
    assert!(drawn.as_u64().unwrap() < 100, "{drawn} rows are drawn");
    let asked = "return [...new Set(performance.getEntriesByType('resource').map((entry) => \
        new URL(entry.name).pathname).filter((path) => path.startsWith('/v1')))].sort().join()";
    assert_eq!(browser.run(asked), "/v1/history,/v1/topics");
    // Keyboard only: filter, select, open, go back, show the key help.
    browser.press("/");
    browser.write("#filter", "0042");
    browser.reads("#shown", "1 of 1,001");
    browser.press(ESCAPE);
    browser.press("j");
    browser.press(ENTER);
    browser.reads("#name", "topic-0042");
    browser.press("g");
    browser.wait("all are listed again", &format!("{rows} === 1001"));
    browser.press("?");
    browser.reads("#keys", "filter the topics");
    browser.press(ESCAPE);
    browser.is_gone("#keys");
    for (theme, word) in [("light", "light"), ("dark", "dark"), ("system", "auto")] {
        browser.press("t");
        assert_eq!(browser.run("return document.documentElement.dataset.theme"), theme);
        browser.reads("#theme", &format!("Theme: {word}"));
    }
    // A hidden page sends no requests.
    browser.run(
        "Object.defineProperty(document, 'hidden', { configurable: true, value: true }); \
        document.dispatchEvent(new Event('visibilitychange'))",
    );
    let later = format!(
        "const done = arguments[0]; setTimeout(() => {{ const n = {REQUESTS}; \
        setTimeout(() => done({REQUESTS} - n), 3000); }}, 1500)"
    );
    assert_eq!(browser.run_later(&later), 0);
    let before = browser.run(&format!("return {REQUESTS}")).as_u64().unwrap();
    browser.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))");
    browser.wait("it asks again", &format!("{REQUESTS} > {before}"));
    is_sound(&browser);
}

#[test]
fn the_page_reports_an_outage_and_recovers() {
    let mut fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\n".to_owned()]);
    // One that is still free when the daemon comes back: the browser and other tests connect meanwhile.
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let manifest = fixture.path("duebox.toml");
    let started = || {
        let daemon = Daemon::start_with(&manifest, |command| {
            command.env("DUEBOX_LISTEN", at.to_string());
        });
        daemon.wait_for_line("ready", |line| line.message() == "ready");
        daemon
    };
    let mut daemon = started();
    let browser = opened(at, "");
    browser.reads("#live", "live");
    fixture.redis.stop();
    browser.reads("#banner", "Redis");
    browser.keep("redis-away-desk-light");
    fixture.redis.restart();
    browser.is_gone("#banner");
    browser.reads("#live", "live");
    daemon.kill();
    browser.reads("#banner", "cannot be reached");
    let _again = started();
    browser.is_gone("#banner");
    browser.reads("#topics .c-topic", "mail");
}
