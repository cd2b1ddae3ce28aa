//! Dead jobs: listed, shown, requeued and purged.

use serde_json::json;

use crate::fixture::Fixture;

#[test]
fn dead_jobs_are_listed_shown_requeued_and_purged() {
    let fixture = Fixture::new();
    fixture.bury(&[
        ("old", 7_200_000, "timeout"),
        ("mid", 60_000, "trap"),
        ("new", 5_000, "timeout"),
    ]);
    let ids = |args: &[&str]| -> Vec<String> {
        let output = fixture.run(&[&["dead", "list", "slow", "--json"], args].concat()).json();
        let jobs = output["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&[]), ["new", "mid", "old"]);
    assert_eq!(ids(&["--oldest", "--limit", "2"]), ["old", "mid"]);
    assert_eq!(ids(&["--class", "timeout"]), ["new", "old"]);
    assert_eq!(ids(&["--older-than", "30s", "--newer-than", "1h"]), ["mid"]);
    let page = fixture.run(&["dead", "list", "slow", "--limit", "2", "--json"]).json();
    assert_eq!(page["jobs"][0]["reason"], "it broke\nbadly");
    let rest = ids(&["--after", page["next"].as_str().unwrap()]);
    assert_eq!(rest, ["old"]);
    let table = fixture.ok(&["dead", "list", "slow", "--limit", "1"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("id ") && lines[1].starts_with("new "), "{table}");
    assert!(lines[1].ends_with("timeout        3  it broke…"), "{table}");
    assert!(lines[2].starts_with("more: --after '"), "{table}");
    let both = ["--older-than", "1h", "--newer-than", "1m"];
    assert_eq!(fixture.run(&[&["dead", "list", "slow"][..], &both].concat()).code, 2);

    let shown = fixture.ok(&["dead", "show", "slow", "mid"]);
    for words in ["state     dead", "trap: it broke\n          badly", "error first", "{\"n\":1}"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    fixture.ok(&["push", "slow", "--id", "live"]);
    assert!(fixture.refused(&["dead", "show", "slow", "live"]).contains("is pending, not dead"));
    assert!(fixture.refused(&["dead", "show", "slow", "never"]).contains("no dead job"));

    for command in [&["requeue", "slow", "live", "never"][..], &["dead", "purge", "slow", "live"]] {
        let output = fixture.run(command);
        assert_eq!(output.code, 1, "{}", output.err);
        assert!(output.out.contains("none live: it is pending, not dead\n"), "{}", output.out);
    }

    let class =
        fixture.ok(&["dead", "requeue", "slow", "--class", "timeout", "--newer-than", "1h"]);
    assert_eq!(class, "requeued 1 in slow\n");
    assert_eq!(fixture.redis.cli(&["ZRANGE", "duebox:{slow}:ready", "0", "-1"]).trim(), "new");
    let some = fixture.run(&["dead", "purge", "slow", "mid", "never", "--json"]);
    assert_eq!((some.code, some.json()), (1, json!({"purged": 1, "none": ["never"]})));
    assert_eq!(fixture.ok(&["dead", "purge", "slow", "--older-than", "1h"]), "purged 1 in slow\n");
    assert_eq!(fixture.redis.cli(&["EXISTS", "duebox:{slow}:dead"]).trim(), "0");
    assert_eq!(fixture.redis.cli(&["EXISTS", "duebox:{slow}:dead:info"]).trim(), "0");
}

#[test]
fn thousands_of_dead_jobs_are_requeued_except_live_ids() {
    let fixture = Fixture::new();
    let ids: Vec<String> = (0..1_200).map(|n| format!("dead-{n:04}")).collect();
    let fill = |command: [&str; 2], pair: fn(&str) -> [&str; 2]| {
        let pairs: Vec<&str> = ids.iter().flat_map(|id| pair(id)).collect();
        fixture.redis.cli(&[&command[..], &pairs].concat());
    };
    fill(["ZADD", "duebox:{slow}:dead"], |id| ["1595262401000", id]);
    fill(["HSET", "duebox:{slow}:dead:jobs"], |id| [id, "payload"]);
    fill(["HSET", "duebox:{slow}:dead:info"], |id| [id, r#"{"class":"drop"}"#]);
    fixture.bury(&[("rare", 5_000_000, "expired")]);
    let rare = fixture.run(&["dead", "list", "slow", "--class", "expired", "--oldest", "--json"]);
    assert_eq!(rare.json()["jobs"][0]["id"], "rare", "behind 1,200 others");

    fixture.ok(&["push", "slow", "--id", "dead-0007"]);
    let some = fixture.run(&["requeue", "slow", "dead-0001", "dead-0007", "never", "--json"]);
    let expected =
        json!({"requeued": 1, "exists": ["dead-0007"], "none": ["never"], "not_requeued": 2});
    assert_eq!((some.code, some.json()), (1, expected));
    let all = fixture.run(&["requeue", "slow", "--all"]);
    assert_eq!(all.code, 1, "{}", all.err);
    assert!(all.out.starts_with("requeued 1199 in slow\nexists dead-0007\n"), "{}", all.out);
    assert_eq!(fixture.redis.cli(&["ZCARD", "duebox:{slow}:ready"]).trim(), "1200");
    assert_eq!(fixture.redis.cli(&["ZRANGE", "duebox:{slow}:dead", "0", "-1"]).trim(), "dead-0007");
}
