//! The views of the page and their charts: what they show, with keys and pointer, and that axe-core finds nothing
//! serious in any of them. Screenshots are written to `target/page`.

use std::fs;
use std::path::Path;

use duebox_harness::eventually;
use serde_json::{Value, json};

use super::browser::{Browser, DESK, ESCAPE, Window};
use super::in_browser::{is_sound, keep_all, opened};
use crate::support::client::{address, get, post};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;

/// The rules that axe-core finds broken and calls serious or critical, each with the first element.
pub(super) fn broken_rules(browser: &Browser) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let axe = fs::read_to_string(root.join(".tools/axe-core/axe.min.js"));
    browser.run(&axe.expect("axe-core is in .tools/axe-core; ./dev test downloads it"));
    let found = browser.run_later(
        "const done = arguments[0]; axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations \
         .filter((one) => ['serious', 'critical'].includes(one.impact)) \
         .map((one) => `${one.id}: ${one.nodes.length} × ${one.nodes[0].html.slice(0, 160)} ${one.nodes[0].failureSummary}`)), \
         (error) => done([String(error)]))",
    );
    let found = found.as_array().cloned().unwrap_or_default();
    found.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A daemon with topics that work, fail and rest, and a schedule.
fn busy() -> (Fixture, duebox_harness::Daemon, std::net::SocketAddr) {
    let fixture = Fixture::new();
    fixture.write("good.wat", Handler::logs("closed").wat());
    fixture.write("bad.wat", Handler::logs("shut").nacks().wat());
    let schedule = "[[schedules]]\nname = \"nightly\"\ntopic = \"order.close\"\ncron = \"0 3 * * *\"\n\
        [[schedules]]\nname = \"often\"\ntopic = \"order.close\"\nevery = \"1s\"\n";
    let keep = "done_retention = \"1h\"";
    let topics = [
        topic("order.close", "good.wat", keep),
        topic("invoice.send", "bad.wat", "max_attempts = 2\nbackoff = [\"10ms\"]"),
        "[topics.mail]\n".to_owned(),
        schedule.to_owned(),
    ];
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let at = address(&daemon);
    let jobs: Vec<Value> = (0..60).map(|n| json!({ "id": format!("job-{n}") })).collect();
    for (topic, jobs) in [("order.close", &jobs[..]), ("invoice.send", &jobs[..3])] {
        let path = format!("/v1/topics/{topic}/jobs");
        assert_eq!(post(at, &path, &json!(jobs).to_string()).status, 200);
    }
    eventually("all were run", || {
        let state = |topic| get(at, &format!("/v1/topics/{topic}")).json();
        state("invoice.send")["dead"] == 3
            && state("order.close")["recent"]["attempts"].as_u64() >= Some(60)
    });
    (fixture, daemon, at)
}

#[test]
fn every_view_is_shown_in_both_themes_and_axe_finds_nothing_serious() {
    let (_fixture, _daemon, at) = busy();
    let browser = opened(at, "");
    let views = [
        ("topics", "", "#causes", "invoice.send"),
        ("failures", "#/failures", "#causes", "nack"),
        ("daemons", "#/daemons", "#daemons", "Slots in use"),
        ("schedules", "#/schedules", "#schedules [data-schedule=often]", "done"),
        ("redis", "#/redis", "#redis-facts", "Memory of data"),
        ("topic", "#/topics/invoice.send", "#dead", "job-1"),
        ("browse", "#/topics/invoice.send/browse/dead", "#browse", "job-1"),
        // The newest come first: on a slow machine the schedule has filled the first page by then.
        ("browse-done", "#/topics/order.close/browse/done", "#browse", "often@"),
        ("job", "#/topics/invoice.send/jobs/job-1", "#timeline", "Attempt 2"),
        ("done-job", "#/topics/order.close/jobs/job-1", "#timeline", "Done"),
        ("unknown", "#/topics/none", "#unknown", "404"),
        ("unknown-job", "#/topics/mail/jobs/none", "#unknown-job", "No record of this job is left"),
    ];
    for (name, route, selector, text) in views {
        browser.run(&format!(
            "location.hash = {}",
            json!(if route.is_empty() { "#/" } else { route })
        ));
        browser.reads(selector, text);
        keep_all(&browser, &format!("view-{name}"));
        for is_dark in [false, true] {
            browser.resize(Window { is_dark, ..DESK });
            let broken = broken_rules(&browser);
            assert!(broken.is_empty(), "{name}, dark: {is_dark}: {broken:#?}");
        }
    }
    browser.resize(DESK);
    // Nothing can be done to a topic that does not exist.
    browser.run("location.hash = '#/topics/none'");
    browser.reads("#unknown", "404");
    assert_eq!(browser.run("return document.querySelectorAll('main button').length"), 0);
    // The answers 404 are logged by the browser, and nothing else.
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|line| line.contains("404")), "{complaints:?}");
}

#[test]
fn charts_are_read_with_keys_and_zoomed_with_the_pointer() {
    let (_fixture, _daemon, at) = busy();
    let browser = opened(at, "#/topics/invoice.send");
    let said = |selector: &str| -> String {
        browser
            .run(&format!("return document.querySelector('{selector}').ariaLabel"))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    browser.wait(
        "the failures are drawn",
        "document.querySelector('#plot-throughput path.t-failed')?.getAttribute('d')",
    );
    assert!(
        said("#plot-throughput svg").contains("failed: now"),
        "{}",
        said("#plot-throughput svg")
    );
    browser.reads("#plot-failures .legend", "nack");
    // Axes have labels with units.
    browser.wait("the axes have labels", "document.querySelectorAll('#plot-late text').length > 3");
    browser.run("document.querySelector('#plot-throughput svg').focus()");
    browser.press("\u{e010}");
    browser.reads("#plot-throughput .tip", "failed");
    browser.press(ESCAPE);
    browser.is_gone("#plot-throughput .tip");
    assert_eq!(browser.run("return location.hash"), "#/topics/invoice.send");
    read_heat_map(&browser);
    // A drag zooms, and so it is undone.
    browser.drag("#plot-throughput svg", 0.7, 0.9);
    browser.wait("it is zoomed", "!document.querySelector('#reset-zoom').hidden");
    browser.click("#reset-zoom");
    browser.wait("it is not", "document.querySelector('#reset-zoom').hidden");
    browser.click("[data-span='6h']");
    browser.reads("#plot-waiting", "not recorded yet");
    // Three dead jobs next to none else are all of the bar; next to sixty done ones they are not.
    browser.run("location.hash = '#/topics/order.close'");
    browser.reads("#states [data-state=done]", "Done, kept");
    let share = "[...document.querySelectorAll('.mix i')].every((part) => part.className === 's-done' || part.offsetWidth < 200)";
    browser.wait("done jobs have most of the bar", share);
    is_sound(&browser);
}

/// A heat map has cells, an axis with units, and values that the keys choose.
fn read_heat_map(browser: &Browser) {
    let cells =
        "[...document.querySelectorAll('#plot-ran .cell')].some((path) => path.getAttribute('d'))";
    browser.wait("cells are drawn", cells);
    let units = "[...document.querySelectorAll('#plot-ran text')].filter((text) => /ms|µs| s/.test(text.textContent)).length > 2";
    browser.wait("the axis has units", units);
    let label = browser.run("return document.querySelector('#plot-ran svg').ariaLabel");
    let label = label.as_str().unwrap();
    assert!(label.contains("6 attempts; most in"), "{label}");
    browser.run("document.querySelector('#plot-ran svg').focus()");
    browser.press("\u{e010}");
    browser.reads("#plot-ran .tip", "p99");
    for _ in 0..40 {
        if browser.run("return document.querySelector('#plot-ran .in-row') !== null") == true {
            break;
        }
        browser.press("\u{e012}");
    }
    browser.reads("#plot-ran .tip", "attempt");
    let row = || {
        let text = browser.run("return document.querySelector('#plot-ran .in-row')?.textContent");
        text.as_str().unwrap_or_default().to_owned()
    };
    let first = row();
    assert!(first.contains('%'), "{first:?}");
    browser.press("\u{e013}");
    browser.press("\u{e013}");
    assert_ne!(row(), first);
    browser.press(ESCAPE);
    browser.is_gone("#plot-ran .tip");
}

#[test]
fn a_schedule_runs_now_and_its_last_outcome_is_a_link() {
    let (_fixture, _daemon, at) = busy();
    let browser = opened(at, "#/schedules");
    browser.reads("[data-schedule=nightly]", "never");
    browser.click("[data-schedule=nightly] button");
    browser.reads("#toasts", "is pushed");
    browser.click("[data-schedule=often] a:has(.chip)");
    browser.reads("#job-title", "often@");
    browser.reads("#timeline", "Done");
    is_sound(&browser);
}
