//! The commands that a user of Redis must be allowed: those that the sources send, and those that the guide lists.

use std::collections::BTreeSet;
use std::path::Path;

use duebox_queue::{Role, rules_of_topology};

/// The words in quotes after any of these prefixes, in lower case.
fn quoted(source: &str, prefixes: &[&str], into: &mut BTreeSet<String>) {
    for prefix in prefixes {
        for part in source.split(prefix).skip(1) {
            let word: String =
                part.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            if word.len() > 2 {
                into.insert(word.to_lowercase());
            }
        }
    }
}

fn walk(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, into);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("lua") => quoted(&source, &["call('", "read_page('", "expect('"], into),
            Some("rs") => {
                let served = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
                quoted(served, &["cmd(\"", "ask(\"", "by_command(\""], into);
            }
            _ => {}
        }
    }
}

#[test]
fn a_daemon_may_send_what_the_sources_send_and_nothing_else() {
    let mut sent = BTreeSet::new();
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runner");
    walk(&runner.join("queue/src"), &mut sent);
    walk(&runner.join("src"), &mut sent);
    let named: BTreeSet<String> =
        Role::Daemon.commands().map(|name| name.split('|').next().unwrap().to_owned()).collect();
    // By names that a variable holds.
    let indirect = ["psubscribe", "subscribe", "evalsha", "evalsha_ro", "eval", "eval_ro"];
    let sent: BTreeSet<String> = sent.into_iter().chain(indirect.map(str::to_owned)).collect();
    // With Sentinel, Cluster or a durability only. The guide adds them to the rules.
    let of_topology = rules_of_topology().map(|name| name.split('|').next().unwrap().to_owned());
    // To sentinels, which have users of their own.
    let of_sentinels = std::iter::once("sentinel".to_owned());
    let named: BTreeSet<String> =
        named.into_iter().chain(of_topology).chain(of_sentinels).collect();
    assert_eq!(named, sent);
}

#[test]
fn the_guide_has_the_rules() {
    let guide = std::fs::read_to_string("../docs/guide/redis.md").unwrap();
    // Long lines are folded in the guide.
    let guide = guide.replace(" \\\n ", "").split_whitespace().collect::<Vec<_>>().join(" ");
    for role in [Role::Daemon, Role::Producer, Role::Viewer] {
        let rules = role.acl_rules("duebox");
        assert!(guide.contains(&rules), "docs/guide/redis.md has not:\n{rules}");
    }
    let of_topology = rules_of_topology().map(|name| format!("+{name}"));
    for rule in of_topology.chain(["+sentinel|get-master-addr-by-name".to_owned()]) {
        assert!(guide.contains(&rule), "docs/guide/redis.md has not: {rule}");
    }
}
