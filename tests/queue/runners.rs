//! What runners say of themselves: it is there while they are, and goes by itself.

use crate::fixture::Fixture;

#[tokio::test]
async fn a_word_stands_until_it_is_renewed_taken_back_or_lapses() {
    let fixture = Fixture::new().await;
    let queue = &fixture.queue;
    assert_eq!(queue.statuses().await.unwrap().texts, []);
    queue.publish_status("b", "one").await.unwrap();
    queue.publish_status("a", "{}").await.unwrap();
    queue.publish_status("b", "two").await.unwrap();
    let both = [("a".to_owned(), "{}".to_owned()), ("b".to_owned(), "two".to_owned())];
    assert_eq!(queue.statuses().await.unwrap().texts, both);
    let name = |name: &str| format!("{}:{name}", fixture.prefix());
    let left: i64 = fixture.redis(redis::cmd("PTTL").arg(name("runner:b")));
    assert!((25_000..=30_000).contains(&left), "{left}");

    queue.remove_status("a").await.unwrap();
    assert_eq!(queue.statuses().await.unwrap().texts, both[1..]);
    // As when its daemon died half a minute ago.
    let _: i64 = fixture.redis(redis::cmd("DEL").arg(name("runner:b")));
    assert_eq!(queue.statuses().await.unwrap().texts, []);
    // Its name goes too, when somebody else has spoken after a day.
    let _: i64 = fixture.redis(redis::cmd("ZADD").arg(name("runners")).arg(1).arg("b"));
    queue.publish_status("c", "three").await.unwrap();
    let listed: Vec<String> =
        fixture.redis(redis::cmd("ZRANGE").arg(name("runners")).arg(0).arg(-1));
    assert_eq!(listed, ["c"]);
}

#[tokio::test]
async fn what_is_no_text_hides_no_other_status() {
    let fixture = Fixture::new().await;
    let queue = &fixture.queue;
    let name = |name: &str| format!("{}:{name}", fixture.prefix());
    for runner in ["list", "bytes", "good"] {
        queue.publish_status(runner, "{}").await.unwrap();
    }
    let _: i64 = fixture.redis(redis::cmd("DEL").arg(name("runner:list")));
    let _: i64 = fixture.redis(redis::cmd("RPUSH").arg(name("runner:list")).arg("a"));
    let _: () = fixture.redis(redis::cmd("SET").arg(name("runner:bytes")).arg(b"\xff\xfe"));
    let found = queue.statuses().await.unwrap();
    assert_eq!(found.texts, [("good".to_owned(), "{}".to_owned())]);
    assert_eq!(found.unreadable, [name("runner:bytes"), name("runner:list")]);
    let _: i64 = fixture.redis(redis::cmd("DEL").arg(name("runners")));
    let _: () = fixture.redis(redis::cmd("SET").arg(name("runners")).arg("a"));
    let found = queue.statuses().await.unwrap();
    assert_eq!((found.texts, found.unreadable), (vec![], vec![name("runners")]));
}

#[tokio::test]
async fn a_history_outlives_its_runner_and_the_latest_64_are_kept() {
    let fixture = Fixture::new().await;
    let queue = &fixture.queue;
    let field = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    let set = vec![field("s1", b"\x01\x00\xff"), field("t1", b""), field("s2", b"two")];
    queue.publish_history("first", &set, &[]).await.unwrap();
    queue.publish_history("first", &[field("s2", b"more")], &["t1".to_owned()]).await.unwrap();
    let mut found = queue.history_of("first").await.unwrap();
    found.sort();
    assert_eq!(found, [field("s1", b"\x01\x00\xff"), field("s2", b"more")]);
    let names = ["s0", "s2"].map(str::to_owned);
    assert_eq!(queue.history_fields("first", &names).await.unwrap(), [field("s2", b"more")]);
    let name = |name: &str| format!("{}:{name}", fixture.prefix());
    let left: i64 = fixture.redis(redis::cmd("PTTL").arg(name("history:first")));
    assert!((172_000_000..=172_800_000).contains(&left), "{left}");
    // Those of one millisecond are in the order of their names.
    for runner in 0..64 {
        queue.publish_history(&format!("more-{runner}"), &set, &[]).await.unwrap();
    }
    let runners = queue.runners_with_history().await.unwrap();
    assert_eq!((runners.len(), runners.contains(&"first".to_owned())), (64, false));
    assert_eq!(queue.history_of("first").await.unwrap(), []);
    // A key of another type is an error of its own and hides nothing else.
    let _: () = fixture.redis(redis::cmd("SET").arg(name("history:odd")).arg("a"));
    assert!(queue.history_of("odd").await.unwrap_err().is_of_topic());
}
