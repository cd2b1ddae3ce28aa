//! Lists of the dead and the done: pages, filters, and what many of them come to at once.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, JobId};
use duebox_queue::{
    Cursor, DeadQuery, Finish, Limits, PageOrder, PageQuery, Pruned, PrunedRecords, Requeued,
    RequeuedMany, RetentionLimits, Settled, Verdict,
};

use crate::fixture::{Fixture, id};
use crate::script::{GET, LIST};
use crate::snapshot::ids;

/// Writes dead jobs as `bury` does: name, ms ago, class.
fn bury(fixture: &Fixture, dead: &[(&str, u64, &str)]) -> u64 {
    let now = fixture.now_ms();
    for (name, ago, class) in dead {
        let info = format!(r#"{{"class":"{class}","reason":"why","attempt":2}}"#);
        fixture.on_key("ZADD", "dead", &[&(now - ago).to_string(), name]);
        fixture.on_key("HSET", "dead:jobs", &[name, "payload"]);
        fixture.on_key("HSET", "dead:info", &[name, &info]);
    }
    now
}

/// Keeps all.
const ALL: RetentionLimits = RetentionLimits {
    dead_for: Duration::from_secs(86_400),
    dead_most: 1_000_000,
    done_for: Duration::from_secs(86_400),
    done_most: 1_000_000,
};

fn page(limit: usize) -> PageQuery {
    PageQuery { limit, ..PageQuery::default() }
}

impl Fixture {
    /// The ids of all pages, one after the other.
    async fn all_pages(&self, mut query: DeadQuery) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let page = self.queue.list_dead(&self.topic, &query).await.unwrap();
            assert!(page.jobs.len() <= query.page.limit);
            names.extend(page.jobs.iter().map(|job| job.id.to_string()));
            match page.next {
                Some(next) => query.page.after = Some(next),
                None => return names,
            }
        }
    }
}

#[tokio::test]
async fn pages_come_from_either_end_and_miss_nothing() {
    let fixture = Fixture::new().await;
    // Many died at the same moment: their ids are their order.
    let names: Vec<String> = (0..25).map(|n| format!("job-{n:02}")).collect();
    let dead: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(n, name)| (name.as_str(), if n < 20 { 5_000 } else { 1_000 }, "trap"))
        .collect();
    bury(&fixture, &dead);
    let oldest = PageQuery { order: PageOrder::Oldest, ..page(7) };
    let all = fixture.all_pages(DeadQuery { class: None, page: oldest }).await;
    assert_eq!(all, names);
    for limit in [1, 7, 25, 1_000] {
        let mut newest = fixture.all_pages(DeadQuery { class: None, page: page(limit) }).await;
        newest.reverse();
        assert_eq!(newest, names, "{limit} a page");
    }
    let query = DeadQuery { class: None, page: page(1) };
    let job = &fixture.queue.list_dead(&fixture.topic, &query).await.unwrap().jobs[0];
    assert_eq!((job.class.as_deref(), job.reason.as_deref()), (Some("trap"), Some("why")));
    assert_eq!(job.attempt, Some(2));
}

#[tokio::test]
async fn a_walk_goes_on_where_its_last_entry_was_though_it_is_gone() {
    let fixture = Fixture::new().await;
    bury(&fixture, &[("a", 9_000, "trap"), ("b", 9_000, "trap"), ("c", 9_000, "trap")]);
    for (order, expected) in [(PageOrder::Newest, ["b", "a"]), (PageOrder::Oldest, ["b", "c"])] {
        let query = DeadQuery { class: None, page: PageQuery { order, ..page(2) } };
        let first = fixture.queue.list_dead(&fixture.topic, &query).await.unwrap();
        assert_eq!(first.jobs[1].id, id(expected[0]));
        fixture.queue.prune(&fixture.topic, &[id("b")]).await.unwrap();
        let after = first.next;
        let query = DeadQuery { class: None, page: PageQuery { after, ..query.page } };
        assert_eq!(fixture.all_pages(query).await, [expected[1]]);
        bury(&fixture, &[("b", 9_000, "trap")]);
        let now = fixture.now_ms();
        // A clean slate: all three at one moment again.
        for name in ["a", "b", "c"] {
            fixture.on_key("ZADD", "dead", &[&(now - 9_000).to_string(), name]);
        }
    }
}

#[tokio::test]
async fn a_page_is_filtered_by_class_and_by_time() {
    let fixture = Fixture::new().await;
    let now =
        bury(&fixture, &[("old", 60_000, "trap"), ("mid", 30_000, "nack"), ("new", 1_000, "trap")]);
    fixture.on_key("HSET", "dead:info", &["mid", "no JSON"]);
    let query = |class, since_ms, until_ms| DeadQuery {
        class,
        page: PageQuery { since_ms, until_ms, ..page(10) },
    };
    let trap = Some(FailureClass::Trap);
    assert_eq!(fixture.all_pages(query(trap, None, None)).await, ["new", "old"]);
    assert_eq!(fixture.all_pages(query(trap, Some(now - 40_000), None)).await, ["new"]);
    assert_eq!(fixture.all_pages(query(None, None, Some(now - 30_000))).await, ["mid", "old"]);
    assert!(fixture.all_pages(query(None, Some(now), Some(now - 1))).await.is_empty());
    assert!(fixture.all_pages(query(Some(FailureClass::Exit), None, None)).await.is_empty());
}

#[tokio::test]
async fn a_rare_class_is_found_behind_thousands_of_others() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..2_500).map(|n| format!("job-{n:04}")).collect();
    let dead: Vec<_> = names.iter().map(|name| (name.as_str(), 5_000, "trap")).collect();
    bury(&fixture, &dead);
    bury(&fixture, &[("rare", 60_000, "expired")]);
    let class = Some(FailureClass::Expired);
    let query = DeadQuery { class, page: page(10) };
    let first = fixture.queue.list_dead(&fixture.topic, &query).await.unwrap();
    assert!(first.jobs.is_empty() && first.next.is_some(), "a call looks at 1,000");
    assert_eq!(fixture.all_pages(query).await, ["rare"]);
}

#[tokio::test]
async fn all_of_a_class_are_requeued_but_those_that_live() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (0..1_200).map(|n| format!("job-{n:04}")).collect();
    let dead: Vec<_> = names.iter().map(|name| (name.as_str(), 5_000, "timeout")).collect();
    bury(&fixture, &dead);
    bury(&fixture, &[("other", 5_000, "drop")]);
    fixture.push("job-0007").await;
    let query = DeadQuery { class: Some(FailureClass::Timeout), page: PageQuery::default() };
    let many = fixture.queue.requeue_matching(&fixture.topic, &query).await.unwrap();
    let exists_ids = vec![id("job-0007")];
    assert_eq!(many, RequeuedMany { requeued: 1_199, exists: 1, exists_ids });
    let after = fixture.snapshot();
    assert_eq!(
        (after.ready.len(), ids(&after.dead)),
        (1_200, vec!["job-0007".into(), "other".into()])
    );
}

#[tokio::test]
async fn what_is_older_is_purged_and_nothing_else() {
    let fixture = Fixture::new().await;
    let now = bury(
        &fixture,
        &[("old", 60_000, "trap"), ("new", 1_000, "trap"), ("nack", 60_000, "nack")],
    );
    let page = PageQuery { until_ms: Some(now - 30_000), ..PageQuery::default() };
    let query = DeadQuery { class: Some(FailureClass::Trap), page };
    assert_eq!(fixture.queue.purge_matching(&fixture.topic, &query).await.unwrap(), 1);
    let after = fixture.snapshot();
    assert_eq!(ids(&after.dead), ["nack", "new"]);
    assert_eq!(ids(&after.dead_info), ["nack", "new"]);
    let all = DeadQuery::default();
    assert_eq!(fixture.queue.purge_matching(&fixture.topic, &all).await.unwrap(), 2);
    assert!(fixture.keys().is_empty(), "{:?}", fixture.keys());
    assert_eq!(
        fixture.queue.requeue(&fixture.topic, &[id("old")]).await.unwrap(),
        [Requeued::None]
    );
}

#[tokio::test]
async fn done_jobs_are_listed_and_pruned_by_age_and_by_count() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c", "d"] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        let verdict = Verdict::Finish(Finish {
            unique_for: Duration::ZERO,
            info: Some(r#"{"attempt":1,"wall_ms":2.5}"#.to_owned()),
            result: Some(Bytes::from_static(b"r")),
            follow_ups: Vec::new(),
        });
        assert_eq!(fixture.settle(lease, verdict).await, Settled::Done);
        fixture.advance(Duration::from_secs(10), &mut []);
    }
    let listed = fixture.queue.list_done(&fixture.topic, &page(3)).await.unwrap();
    let names: Vec<String> = listed.jobs.iter().map(|job| job.id.to_string()).collect();
    assert_eq!(
        (names, listed.jobs[0].wall_ms),
        (vec!["d".into(), "c".into(), "b".into()], Some(2.5))
    );
    let after = listed.next;
    let rest = PageQuery { after, ..page(3) };
    assert_eq!(fixture.queue.list_done(&fixture.topic, &rest).await.unwrap().jobs[0].id, id("a"));

    let keep = |done_for, done_most| RetentionLimits {
        done_for: Duration::from_secs(done_for),
        done_most,
        ..ALL
    };
    let tidied = |done| Pruned { done, ..Pruned::default() };
    let tidy = async |keep| fixture.queue.prune_ended(&fixture.shard, &keep).await.unwrap();
    assert_eq!(tidy(keep(35, 10)).await, tidied(1));
    assert_eq!(tidy(keep(60, 2)).await, tidied(1));
    assert_eq!(tidy(ALL).await, tidied(0));
    let after = fixture.snapshot();
    for part in [ids(&after.done), ids(&after.done_jobs), ids(&after.done_info)] {
        assert_eq!(part, ["c", "d"]);
    }
    assert_eq!(ids(&after.done_result), ["c", "d"]);
}

#[tokio::test]
async fn a_topic_is_pruned_by_its_own_rules_or_keeps_its_jobs() {
    let fixture = Fixture::new().await;
    let now = fixture.now_ms();
    for (name, ago) in [("old", 9_000_000), ("middle", 5_000), ("new", 1_000)] {
        for (list, parts) in
            [("dead", ["dead:jobs", "dead:info"]), ("done", ["done:jobs", "done:info"])]
        {
            fixture.on_key("ZADD", list, &[&(now - ago).to_string(), name]);
            for part in parts {
                fixture.on_key("HSET", part, &[name, "{}"]);
            }
        }
    }
    let tidied = async || fixture.queue.prune_ended(&fixture.shard, None).await.unwrap();
    assert_eq!(tidied().await, Pruned::default());
    let hour = Some(Duration::from_secs(3_600));
    let rules = Limits { retention: hour, max_dead: Some(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    assert_eq!(tidied().await, Pruned { dead: 2, done: 2, ..Pruned::default() });
    let after = fixture.snapshot();
    assert_eq!((ids(&after.dead), ids(&after.done)), (vec!["new".into()], vec!["new".into()]));
}

#[tokio::test]
async fn marks_are_forgotten_when_their_time_is_over_a_thousand_a_call() {
    let fixture = Fixture::new().await;
    let now = fixture.now_ms();
    for n in 0..1_100 {
        fixture.on_key("ZADD", "unique", &[&(now - 1).to_string(), &format!("old-{n}")]);
    }
    fixture.on_key("ZADD", "unique", &[&(now + 60_000).to_string(), "held"]);
    fixture.on_key("ZADD", "inbox", &[&(now - 1).to_string(), "source:1:a:1"]);
    fixture.on_key("ZADD", "inbox", &["+inf", "source:2:a:1"]);
    let swept = |held, follow_ups, more| Pruned {
        records: PrunedRecords { held, follow_ups },
        more,
        ..Pruned::default()
    };
    for expected in [swept(1_000, 1, true), swept(100, 0, false), swept(0, 0, false)] {
        assert_eq!(fixture.queue.prune_ended(&fixture.shard, &ALL).await.unwrap(), expected);
    }
    let after = fixture.snapshot();
    assert_eq!(
        (ids(&after.unique), ids(&after.inbox)),
        (vec!["held".into()], vec!["source:2:a:1".into()])
    );
}

#[tokio::test]
async fn a_cursor_may_stand_anywhere() {
    let fixture = Fixture::new().await;
    let now = bury(&fixture, &[("a", 3_000, "trap"), ("b", 2_000, "trap"), ("c", 1_000, "trap")]);
    let names = ["", "a", "aa", "b", "zzz"];
    for order in [PageOrder::Newest, PageOrder::Oldest] {
        for ago in [0, 1_000, 1_500, 2_000, 3_000, 9_000] {
            for name in names {
                let place = (now - ago, JobId::from_redis(name));
                let after = Some(Cursor::new(place.0, place.1.clone()));
                let page = PageQuery { order, after, ..page(10) };
                let met: BTreeSet<String> =
                    fixture.all_pages(DeadQuery { class: None, page }).await.into_iter().collect();
                let expected: BTreeSet<String> = [("a", 3_000), ("b", 2_000), ("c", 1_000)]
                    .into_iter()
                    .filter(|(id, died)| {
                        let entry = (now - died, JobId::from_redis(*id));
                        if order == PageOrder::Newest { entry < place } else { entry > place }
                    })
                    .map(|(id, _)| id.to_owned())
                    .collect();
                assert_eq!(met, expected, "{order:?} {ago} {name}");
            }
        }
    }
}

#[tokio::test]
async fn arguments_that_are_none_are_refused() {
    let fixture = Fixture::new().await;
    bury(&fixture, &[("a", 1_000, "trap")]);
    let good = ["dead", "newest", "", "0", "9999999999999", "", "", "10"];
    let with = |at: usize, value: &'static str| {
        let mut args = good;
        args[at] = value;
        args
    };
    let answer: Vec<redis::Value> = LIST.call(&fixture, &good);
    assert_eq!(answer.len(), 6, "the good one is listed");
    for (args, why) in [
        (with(0, "live"), "dead or done"),
        (with(1, "random"), "newest or oldest"),
        (with(2, "trap.*"), "the class of list"),
        (with(2, "%w"), "the class of list"),
        (with(3, "-1"), "a start and an end"),
        (with(4, "inf"), "a start and an end"),
        (with(5, "now"), "a time in ms and an id"),
        (with(7, "0"), "1 to 1000 jobs"),
        (with(7, "1001"), "1 to 1000 jobs"),
    ] {
        let error = LIST.try_call(&fixture, &args).unwrap_err();
        assert!(error.detail().unwrap_or_default().contains(why), "{args:?}: {error}");
    }
    for (script, args) in [(&LIST, &[][..]), (&GET, &[]), (&GET, &["a", "b"])] {
        let error = script.try_call(&fixture, args).unwrap_err();
        assert_eq!(error.code(), Some("DUEBOX"), "{args:?}: {error}");
    }
}
