//! Ways to make a handler's request reach what it may not: with real name servers, real sockets, and a server
//! on loopback that must never hear of it.

use duebox_sandbox::HttpConfig;

use crate::asker::{Answer, Ask, Asker, client, grant};
use crate::kit::job;
use crate::names::Names;
use crate::web::{self, Raw};

/// Closes each connection after one answer, so that the next request asks for the name again.
const ONCE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

async fn get(asker: &Asker, url: &str) -> Answer {
    asker.ask(&*format!("GET {url}\n")).await
}

#[tokio::test]
async fn an_address_on_the_inside_is_denied_however_it_is_written() {
    let inside = Raw::say(ONCE).await;
    let port = inside.address.port();
    // Any host at this port may be asked, as far as its address is public.
    let any = format!("*:{port}");
    let asker = Asker::with(grant(&[&any], &[]), client(HttpConfig::default()));
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "%31%32%37.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "%6cocalhost",
        "some.localhost",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        let answer = get(&asker, &format!("http://{host}:{port}/")).await;
        assert_eq!(answer.code, -2, "{host}: {}", answer.error);
        assert!(answer.error.contains("http_private"), "{host}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 0);
    // The same server, where its address is granted.
    let asker =
        Asker::with(grant(&[&any], &["127.0.0.1/32", "::1/128"]), client(Default::default()));
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
        assert_eq!(get(&asker, &format!("http://{host}:{port}/")).await.code, 200, "{host}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_denied() {
    let inside = Raw::say(ONCE).await;
    let port = inside.address.port();
    let names = Names::serve(&[
        ("loop.test", "127.0.0.1"),
        ("six.test", "::1"),
        ("mapped.test", "::ffff:127.0.0.1"),
        ("nat.test", "64:ff9b::7f00:1"),
        ("metadata.test", "169.254.169.254"),
        ("home.test", "192.168.0.1 10.1.1.1 fd00::1 fe80::1"),
        ("none.test", ""),
    ])
    .await;
    let asker = Asker::with(grant(&[&format!("*.test:{port}")], &[]), client(names.config()));
    for name in ["loop", "six", "mapped", "nat", "metadata", "home", "loop.test."] {
        let host = if name.contains('.') { name.to_owned() } else { format!("{name}.test") };
        let answer = get(&asker, &format!("http://{host}:{port}/")).await;
        assert_eq!(answer.code, -2, "{host}: {}", answer.error);
        assert!(answer.error.contains("not public"), "{host}: {}", answer.error);
    }
    for name in ["none", "unknown"] {
        let answer = get(&asker, &format!("http://{name}.test:{port}/")).await;
        assert_eq!(answer.code, -6, "{name}: {}", answer.error);
        assert!(answer.error.contains("has no address"), "{name}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 0);
    let granted = grant(&[&format!("*.test:{port}")], &["127.0.0.0/8"]);
    let asker = Asker::with(granted, client(names.config()));
    for name in ["loop", "mapped"] {
        let answer = get(&asker, &format!("http://{name}.test:{port}/")).await;
        assert_eq!(answer.code, 200, "{name}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 2);
}

/// Two servers at one port: one at 127.0.0.2, which is granted and so stands for the internet, and one at
/// 127.0.0.1, which is not.
async fn outside_and_inside() -> (Raw, Raw, u16) {
    // The other way round the port could be taken: most sockets of this machine are at 127.0.0.1.
    let inside = Raw::say(ONCE).await;
    let port = inside.address.port();
    let outside = Raw::say_at(&format!("127.0.0.2:{port}"), ONCE).await;
    (outside, inside, port)
}

#[tokio::test]
async fn a_name_that_is_bound_anew_is_checked_anew() {
    let (outside, inside, port) = outside_and_inside().await;
    let names = Names::serve(&[("turns.test", "127.0.0.2|127.0.0.1")]).await;
    let url = format!("http://turns.test:{port}/");
    let granted = grant(&["http://turns.test:*"], &["127.0.0.2/32"]);
    let asker = Asker::with(granted, client(names.config()));
    assert_eq!(get(&asker, &url).await.code, 200);
    assert_eq!(names.asked("turns.test"), 1, "what was checked is what was dialled");
    let answer = get(&asker, &url).await;
    assert_eq!(answer.code, -2, "{}", answer.error);
    assert_eq!((names.asked("turns.test"), outside.taken(), inside.taken()), (2, 1, 0));
}

#[tokio::test]
async fn of_an_answer_with_both_only_what_is_allowed_is_dialled() {
    let (outside, inside, port) = outside_and_inside().await;
    let names = Names::serve(&[
        ("both.test", "127.0.0.1 127.0.0.2 ::1 10.0.0.1"),
        ("dead.test", "127.0.0.1 127.0.0.3"),
    ])
    .await;
    let granted = grant(&["http://*.test:*"], &["127.0.0.2/31"]);
    let asker = Asker::with(granted, client(names.config()));
    for _ in 0..8 {
        assert_eq!(get(&asker, &format!("http://both.test:{port}/")).await.code, 200);
    }
    // Nobody is at the allowed one; the other is no way out.
    assert_eq!(get(&asker, &format!("http://dead.test:{port}/")).await.code, -6);
    assert_eq!((outside.taken(), inside.taken()), (8, 0));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_is_checked_like_any_other() {
    let (_outside, inside, port) = outside_and_inside().await;
    let target = format!("http://127.0.0.1:{port}/secret");
    let answer = format!(
        "HTTP/1.1 307 Over There\r\nLocation: {target}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    let lure = Raw::say_at("127.0.0.2:0", answer).await;
    let asker = Asker::with(
        grant(&["http://127.0.0.2:*", "http://127.0.0.1:*"], &["127.0.0.2/32"]),
        client(HttpConfig::default()),
    );
    let url = format!("http://{}/", lure.address);
    let answer = get(&asker, &url).await;
    assert_eq!((answer.code, answer.header("location")), (307, Some(&*target)));
    // What a guest does that follows by itself, in the same job.
    let (first, second) = (format!("GET {url}\n"), format!("GET {target}\n"));
    let answer = asker.ask_as(job(), &[Ask::from(&*first), Ask::from(&*second)]).await;
    assert_eq!(answer.code, -2, "{}", answer.error);
    assert_eq!((lure.taken(), inside.taken()), (2, 0));
}

#[tokio::test]
async fn odd_ports_and_users_lead_nowhere_else() {
    let inside = Raw::say(ONCE).await;
    let port = inside.address.port();
    let asker = Asker::to(&["http://127.0.0.1", "https://127.0.0.1", "http://granted.test:*"]);
    for (url, code) in [
        (format!("http://127.0.0.1:{port}/"), -2),
        (format!("http://127.0.0.1:{port}:80/"), -3),
        (format!("http://127.0.0.1:+{port}/"), -3),
        ("http://127.0.0.1:65536/".to_owned(), -3),
        (format!("http://granted.test@127.0.0.1:{port}/"), -3),
        (format!("http://granted.test:80@127.0.0.1:{port}/"), -3),
        (format!("http://127.0.0.1:{port}#@granted.test/"), -2),
        (format!("http://127.0.0.1:{port}?@granted.test/"), -2),
        (format!("http://127.0.0.1:{port}\\@granted.test/"), -3),
        (format!("http:127.0.0.1:{port}/"), -2),
        (format!("http:///127.0.0.1:{port}/"), -2),
        (format!("http://127.0.0.1:{port}%40granted.test/"), -3),
    ] {
        let answer = get(&asker, &url).await;
        assert_eq!(answer.code, code, "{url}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 0);
}

#[tokio::test]
async fn a_connection_of_one_policy_is_none_of_another() {
    let server = web::echo().await;
    let names = Names::serve(&[("shared.test", "127.0.0.1")]).await;
    let url = format!("http://shared.test:{}/", server.port());
    let client = client(names.config());
    let origin = [url.trim_end_matches('/')];
    let trusted = Asker::with(grant(&origin, &["127.0.0.1/32"]), client.clone());
    let other = Asker::with(grant(&origin, &["10.0.0.0/8"]), client.clone());
    assert_eq!(get(&trusted, &url).await.code, 200);
    let answer = get(&other, &url).await;
    assert_eq!(answer.code, -2, "{}", answer.error);
    // The connection of the first is still there for its own, and for a topic with the same policy.
    assert_eq!(get(&trusted, &url).await.code, 200);
    let twin = Asker::with(grant(&origin, &["127.0.0.1/32"]), client);
    assert_eq!(get(&twin, &url).await.code, 200);
    assert_eq!(names.asked("shared.test"), 2);
}
