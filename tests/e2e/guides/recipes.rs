//! The guides with a recipe each: their handlers, manifests and cases work together, and their commands do what the
//! page says.

use std::fs;
use std::path::PathBuf;

use duebox_harness::{duebox_binary, eventually};
use duebox_job::FailureClass;
use serde_json::Value;

use crate::support::fixture::Fixture;
use crate::support::page::Page;
use crate::support::shell;

/// A page, with its files in a folder of the test's own.
struct Recipe {
    page: Page,
    fixture: Fixture,
}

impl Recipe {
    fn read(name: &str) -> Self {
        Self { page: Page::read(&format!("docs/guide/{name}.md")), fixture: Fixture::new() }
    }

    fn folder(&self) -> PathBuf {
        self.fixture.path("")
    }

    /// Writes the page's manifest, its first block of TOML, with the Redis of the test.
    fn manifest(&self) {
        let redis = format!("[redis]\nurl = \"{}\"\n", self.fixture.redis.url());
        self.fixture.write("duebox.toml", redis + self.page.blocks("toml")[0]);
    }

    /// Runs commands until one fails.
    fn run(&self, block: &str) -> String {
        shell::run(block, &self.folder(), duebox_binary().parent().unwrap(), &[])
    }

    /// Runs the test cases, the page's second block of TOML, and returns how many passed.
    fn passed_cases(&self, file: &str) -> String {
        fs::create_dir(self.fixture.path("tests")).unwrap();
        self.fixture.write(&format!("tests/{file}"), self.page.blocks("toml")[1]);
        self.run("duebox test")
    }
}

#[test]
fn the_page_about_apis_works() {
    let recipe = Recipe::read("calling-apis");
    recipe.fixture.write("capture.ts", recipe.page.blocks("ts")[0]);
    recipe.manifest();
    assert_eq!(recipe.page.blocks("sh"), ["duebox test"]);
    let printed = recipe.passed_cases("capture.toml");
    assert!(printed.contains("\n4 passed, 0 failed in "), "{printed}");
}

#[test]
fn the_page_about_effects_works() {
    let recipe = Recipe::read("effects");
    recipe.fixture.write("notify.ts", recipe.page.blocks("ts")[0]);
    recipe.manifest();
    let printed = recipe.passed_cases("notify.toml");
    assert!(printed.contains("\n2 passed, 0 failed in "), "{printed}");
    // A mark prevents the second request, for which there is no recorded response.
    recipe.fixture.write("kv.json", "{\"sent/42\": \"1\"}");
    fs::create_dir(recipe.fixture.path("none")).unwrap();
    let again = "duebox invoke --topic notify --id 42 --payload '{}' --kv kv.json --http none";
    let printed = recipe.run(again);
    assert!(
        printed.contains("verdict  ack") && printed.contains("sent by an earlier"),
        "{printed}"
    );
}

#[test]
fn the_page_about_retries_works() {
    let recipe = Recipe::read("retries");
    recipe.fixture.write("poll.ts", recipe.page.blocks("ts")[0]);
    recipe.manifest();
    let _daemon = recipe.fixture.start();
    let page = recipe.page.part("## Dead jobs");
    let [push, look, requeue] = page.blocks("sh")[..] else { panic!("{}", page.text()) };
    let dies_again = |before: u64| {
        let mut died = 0;
        eventually("the job is dead", || {
            let job = recipe.run("duebox get payment.poll p1 --json");
            let job: Value = serde_json::from_str(&job).unwrap();
            died = job["dead"]["died_at_ms"].as_u64().unwrap_or(0);
            died > before
        });
        died
    };
    recipe.run(push);
    let first = dies_again(0);
    let printed = recipe.run(look);
    assert!(printed.contains("has no address") && printed.contains("nack"), "{printed}");
    let (one, all) = requeue.trim_end().split_once('\n').unwrap();
    recipe.run(one);
    let second = dies_again(first);
    recipe.run(all);
    dies_again(second);
    recipe.run("duebox dead purge payment.poll --older-than 7d");
}

#[test]
fn the_page_about_instances_works() {
    let recipe = Recipe::read("instances");
    let smallest = "(module (func (export \"handle\") (param i32) (result i32) (i32.const 0)))";
    recipe.fixture.write("handler.wat", smallest);
    recipe.manifest();
    let [inspect] = recipe.page.blocks("sh")[..] else { panic!("{}", recipe.page.text()) };
    let printed = recipe.run(inspect);
    for shown in recipe.page.blocks("text")[0].lines() {
        let name = shown.split_whitespace().next().unwrap();
        assert!(printed.lines().any(|line| line.starts_with(name)), "{name} is missing: {printed}");
    }
    recipe.run("duebox check");
}

#[test]
fn the_page_about_failures_names_each_class_and_its_command_works() {
    let recipe = Recipe::read("failures");
    for class in FailureClass::ALL {
        let row = format!("\n| `{}` | ", class.name());
        assert!(recipe.page.text().contains(&row), "{} has no row", class.name());
    }
    recipe.fixture.write("report.ts", "export default () => {};");
    recipe.manifest();
    let [invoke] = recipe.page.blocks("sh")[..] else { panic!("{}", recipe.page.text()) };
    let printed = recipe.run(invoke);
    for part in ["verdict  ack", "memory", "fuel"] {
        assert!(printed.contains(part), "{part} is missing: {printed}");
    }
}

#[test]
fn the_page_without_an_sdk_works() {
    let recipe = Recipe::read("no-sdk");
    recipe.fixture.write("handler.c", recipe.page.blocks("c")[0]);
    recipe.manifest();
    let [build, inspect, invoke] = recipe.page.blocks("sh")[..] else {
        panic!("{}", recipe.page.text())
    };
    recipe.run(build);
    let printed = recipe.run(inspect);
    assert!(printed.contains("duebox_v1"), "{printed}");
    let printed = recipe.run(invoke);
    let [shown] = recipe.page.blocks("text")[..] else { panic!("{}", recipe.page.text()) };
    assert!(printed.contains(shown) && printed.contains('4'), "{printed}");
    let printed = recipe.run("duebox invoke build/handler.wasm --payload ' ' || [ $? = 4 ]");
    assert!(printed.contains("the text has no words"), "{printed}");
}
