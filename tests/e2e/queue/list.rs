//! `duebox list` and `GET /v1/topics/{topic}/jobs?state=…`: pages of one state, found by id and by header.

use duebox_harness::eventually;
use serde_json::Value;

use crate::support::client::{address, get};
use crate::support::fixture::{Fixture, topic};
use crate::support::producer::push_ids;
use crate::support::puppet::PUPPET;

/// The ids of a list in JSON.
fn ids(list: &Value) -> Vec<&str> {
    let jobs = list["jobs"].as_array().unwrap_or_else(|| panic!("{list}"));
    jobs.iter().map(|job| job["id"].as_str().unwrap()).collect()
}

fn list(fixture: &Fixture, words: &[&str]) -> Value {
    let words = [&["list", "work", "--json"], words].concat();
    serde_json::from_str(&fixture.duebox(&words)).unwrap()
}

#[test]
fn jobs_of_one_customer_are_found_in_any_state() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = "max_attempts = 2\nbackoff = \"1h\"\ndone_retention = \"1h\"";
    fixture.manifest("", &[topic("work", "puppet.wat", keys)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let push = |id: &str, payload: &str, more: &[&str]| {
        fixture.duebox(&[&["push", "work", payload, "--id", id], more].concat());
    };
    // `N` fails.
    push("dead-7", "N", &["--header", "customer=7", "--max-attempts", "1"]);
    push("dead-8", "N", &["--header", "customer=8", "--max-attempts", "1"]);
    push("retry-7", "N", &["--header", "customer=7"]);
    push("later-7", "l", &["--header", "customer=7", "--in", "1h"]);
    push("later-8", "l", &["--header", "customer=8", "--in", "2h"]);
    push("done-7", "l", &["--header", "customer=7"]);
    let found = |state: &str| list(&fixture, &["--state", state]);
    eventually("all have run", || ids(&found("dead")).len() == 2 && ids(&found("done")).len() == 1);
    eventually("one waits for its next attempt", || ids(&found("retry")) == ["retry-7"]);
    for (state, id) in [("dead", "dead-7"), ("retry", "retry-7"), ("pending", "later-7")] {
        let here = list(&fixture, &["--state", state, "--header", "customer=7"]);
        assert_eq!(ids(&here), [id], "{here}");
        let path = format!("/v1/topics/work/jobs?state={state}&header=customer%3D7");
        assert_eq!(get(at, &path).json(), here, "the command and HTTP agree");
    }
    let waits = found("retry");
    let retry = &waits["jobs"][0];
    assert_eq!((&retry["class"], &retry["failures"]), (&"nack".into(), &1.into()), "{retry}");
    assert_eq!(ids(&list(&fixture, &["--state", "pending", "--id", "later-8"])), ["later-8"]);
    let table = fixture.duebox(&["list", "work", "--state", "dead"]);
    assert!(table.starts_with("id") && table.contains("nack"), "{table}");
    // Both words for a running job are understood.
    for word in ["running", "unack"] {
        assert!(ids(&found(word)).is_empty());
        assert_eq!(get(at, &format!("/v1/topics/work/jobs?state={word}")).status, 200, "{word}");
    }
    // Without a state: what is live.
    assert_eq!(ids(&list(&fixture, &[])), ["retry-7", "later-7", "later-8"]);
    assert_eq!(ids(&get(at, "/v1/topics/work/jobs").json()).len(), 3);
}

#[test]
fn pages_go_on_and_a_search_that_stops_says_so() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.work]\nshards = 3\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let pushed: Vec<String> = (0..12_500).map(|n| format!("job-{n:05}")).collect();
    // In the first shard, as plain producers push.
    push_ids(&fixture, "work", &pushed);
    let mut found = Vec::new();
    let mut words = vec!["--state".to_owned(), "pending".into(), "--limit".into(), "1000".into()];
    loop {
        let page = list(&fixture, &words.iter().map(String::as_str).collect::<Vec<_>>());
        found.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else { break };
        words.truncate(4);
        words.extend(["--after".to_owned(), next.to_owned()]);
    }
    assert_eq!(found, pushed);

    // HTTP looks at 10,000 jobs a page, the command at 100,000.
    let search = |more: &str| {
        get(at, &format!("/v1/topics/work/jobs?state=pending&id=job-12499{more}")).json()
    };
    let first = search("");
    assert_eq!((ids(&first).len(), &first["stopped"]), (0, &true.into()), "{first}");
    let looked_at = first["looked_at"].as_u64().unwrap();
    assert!((10_000..12_500).contains(&looked_at), "{first}");
    let second = search(&format!("&after={}", first["next"].as_str().unwrap()));
    assert_eq!((ids(&second), &second["stopped"]), (vec!["job-12499"], &false.into()));
    let here = list(&fixture, &["--state", "pending", "--id", "job-12499"]);
    assert_eq!((ids(&here), &here["looked_at"]), (vec!["job-12499"], &12_500.into()));
}

#[test]
fn what_cannot_be_listed_is_refused() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.work]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    for (query, field) in [
        ("state=asleep", "state"),
        ("id=a", "id"),
        ("header=a%3Db", "header"),
        ("state=done&header=a%3Db", "header"),
        ("state=ready&header=a", "header"),
        ("state=ready&after=x", "after"),
        ("state=ready&limit=0", "limit"),
    ] {
        let refused = get(at, &format!("/v1/topics/work/jobs?{query}"));
        assert_eq!((refused.status, refused.problem().as_str()), (400, "bad-request"), "{query}");
        assert_eq!(refused.json()["field"], field, "{query}");
    }
    let unknown = get(at, "/v1/topics/wrok/jobs?state=ready");
    assert_eq!(unknown.status, 404);
    assert!(unknown.json()["remedy"].as_str().unwrap().contains("did you mean work?"));
}
