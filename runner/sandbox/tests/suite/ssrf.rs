//! Attempts to reach a private address from a handler, with a real name server and a server on loopback that
//! must not receive a request.

use duebox_sandbox::HttpConfig;

use crate::http_guest::{HttpGuest, TestRequest, TestResponse, client, grant};
use crate::name_server::NameServer;
use crate::support::job;
use crate::web_servers::{self, RawServer};

/// Closes each connection after one response, so that the next request resolves the name again.
const ONCE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

async fn get(guest: &HttpGuest, url: &str) -> TestResponse {
    guest.ask(&*format!("GET {url}\n")).await
}

#[tokio::test]
async fn a_private_address_is_denied_in_every_notation() {
    let inside = RawServer::say(ONCE).await;
    let port = inside.address.port();
    // Any host at this port is granted, if its address is public.
    let any = format!("*:{port}");
    let guest = HttpGuest::with(grant(&[&any], &[]), client(HttpConfig::default()));
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
        let answer = get(&guest, &format!("http://{host}:{port}/")).await;
        assert_eq!(answer.code, -2, "{host}: {}", answer.error);
        assert!(answer.error.contains("http_private"), "{host}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 0);
    // The same server, with its address granted.
    let guest =
        HttpGuest::with(grant(&[&any], &["127.0.0.1/32", "::1/128"]), client(Default::default()));
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
        assert_eq!(get(&guest, &format!("http://{host}:{port}/")).await.code, 200, "{host}");
    }
}

#[tokio::test]
async fn a_name_with_a_private_address_is_denied() {
    let inside = RawServer::say(ONCE).await;
    let port = inside.address.port();
    let names = NameServer::serve(&[
        ("loop.test", "127.0.0.1"),
        ("six.test", "::1"),
        ("mapped.test", "::ffff:127.0.0.1"),
        ("nat.test", "64:ff9b::7f00:1"),
        ("metadata.test", "169.254.169.254"),
        ("home.test", "192.168.0.1 10.1.1.1 fd00::1 fe80::1"),
        ("none.test", ""),
    ])
    .await;
    let guest = HttpGuest::with(grant(&[&format!("*.test:{port}")], &[]), client(names.config()));
    for name in ["loop", "six", "mapped", "nat", "metadata", "home", "loop.test."] {
        let host = if name.contains('.') { name.to_owned() } else { format!("{name}.test") };
        let answer = get(&guest, &format!("http://{host}:{port}/")).await;
        assert_eq!(answer.code, -2, "{host}: {}", answer.error);
        assert!(answer.error.contains("not public"), "{host}: {}", answer.error);
    }
    for name in ["none", "unknown"] {
        let answer = get(&guest, &format!("http://{name}.test:{port}/")).await;
        assert_eq!(answer.code, -6, "{name}: {}", answer.error);
        assert!(answer.error.contains("has no address"), "{name}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 0);
    let granted = grant(&[&format!("*.test:{port}")], &["127.0.0.0/8"]);
    let guest = HttpGuest::with(granted, client(names.config()));
    for name in ["loop", "mapped"] {
        let answer = get(&guest, &format!("http://{name}.test:{port}/")).await;
        assert_eq!(answer.code, 200, "{name}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 2);
}

/// Two servers at one port: one at 127.0.0.2, which is granted and represents the internet, and one at 127.0.0.1,
/// which is not granted.
async fn outside_and_inside() -> (RawServer, RawServer, u16) {
    // In this order, because most ports that are in use are bound to 127.0.0.1.
    let inside = RawServer::say(ONCE).await;
    let port = inside.address.port();
    let outside = RawServer::say_at(&format!("127.0.0.2:{port}"), ONCE).await;
    (outside, inside, port)
}

#[tokio::test]
async fn a_rebound_name_is_checked_again() {
    let (outside, inside, port) = outside_and_inside().await;
    let names = NameServer::serve(&[("turns.test", "127.0.0.2|127.0.0.1")]).await;
    let url = format!("http://turns.test:{port}/");
    let granted = grant(&["http://turns.test:*"], &["127.0.0.2/32"]);
    let guest = HttpGuest::with(granted, client(names.config()));
    assert_eq!(get(&guest, &url).await.code, 200);
    assert_eq!(names.asked("turns.test"), 1, "the checked address is the one that is used");
    let answer = get(&guest, &url).await;
    assert_eq!(answer.code, -2, "{}", answer.error);
    assert_eq!((names.asked("turns.test"), outside.taken(), inside.taken()), (2, 1, 0));
}

#[tokio::test]
async fn only_the_allowed_addresses_of_a_name_are_used() {
    let (outside, inside, port) = outside_and_inside().await;
    let names = NameServer::serve(&[
        ("both.test", "127.0.0.1 127.0.0.2 ::1 10.0.0.1"),
        ("dead.test", "127.0.0.1 127.0.0.3"),
    ])
    .await;
    let granted = grant(&["http://*.test:*"], &["127.0.0.2/31"]);
    let guest = HttpGuest::with(granted, client(names.config()));
    for _ in 0..8 {
        assert_eq!(get(&guest, &format!("http://both.test:{port}/")).await.code, 200);
    }
    // There is no server at the allowed address, and the other address is not used instead.
    assert_eq!(get(&guest, &format!("http://dead.test:{port}/")).await.code, -6);
    assert_eq!((outside.taken(), inside.taken()), (8, 0));
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_its_target_is_checked() {
    let (_outside, inside, port) = outside_and_inside().await;
    let target = format!("http://127.0.0.1:{port}/secret");
    let answer = format!(
        "HTTP/1.1 307 Over There\r\nLocation: {target}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    let lure = RawServer::say_at("127.0.0.2:0", answer).await;
    let guest = HttpGuest::with(
        grant(&["http://127.0.0.2:*", "http://127.0.0.1:*"], &["127.0.0.2/32"]),
        client(HttpConfig::default()),
    );
    let url = format!("http://{}/", lure.address);
    let answer = get(&guest, &url).await;
    assert_eq!((answer.code, answer.header("location")), (307, Some(&*target)));
    // A guest that follows the redirect itself, in the same job.
    let (first, second) = (format!("GET {url}\n"), format!("GET {target}\n"));
    let answer =
        guest.send_all(job(), &[TestRequest::from(&*first), TestRequest::from(&*second)]).await;
    assert_eq!(answer.code, -2, "{}", answer.error);
    assert_eq!((lure.taken(), inside.taken()), (2, 0));
}

#[tokio::test]
async fn unusual_ports_and_users_do_not_change_the_host() {
    let inside = RawServer::say(ONCE).await;
    let port = inside.address.port();
    let guest = HttpGuest::to(&["http://127.0.0.1", "https://127.0.0.1", "http://granted.test:*"]);
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
        let answer = get(&guest, &url).await;
        assert_eq!(answer.code, code, "{url}: {}", answer.error);
    }
    assert_eq!(inside.taken(), 0);
}

#[tokio::test]
async fn a_connection_is_not_shared_between_grants() {
    let server = web_servers::echo().await;
    let names = NameServer::serve(&[("shared.test", "127.0.0.1")]).await;
    let url = format!("http://shared.test:{}/", server.port());
    let client = client(names.config());
    let origin = [url.trim_end_matches('/')];
    let trusted = HttpGuest::with(grant(&origin, &["127.0.0.1/32"]), client.clone());
    let other = HttpGuest::with(grant(&origin, &["10.0.0.0/8"]), client.clone());
    assert_eq!(get(&trusted, &url).await.code, 200);
    let answer = get(&other, &url).await;
    assert_eq!(answer.code, -2, "{}", answer.error);
    // The first connection is still used for its own topic, and for a topic with the same grant.
    assert_eq!(get(&trusted, &url).await.code, 200);
    let twin = HttpGuest::with(grant(&origin, &["127.0.0.1/32"]), client);
    assert_eq!(get(&twin, &url).await.code, 200);
    assert_eq!(names.asked("shared.test"), 2);
}
