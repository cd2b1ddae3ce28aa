//! Requests to servers that misbehave.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http_guest::{HttpGuest, TestRequest, TestResponse, client, grant};
use crate::web_servers::{self, RawServer};

/// The result of these bytes of a server, with a body limit of 1,000 bytes.
async fn said(bytes: impl Into<Vec<u8>>) -> TestResponse {
    let server = RawServer::say(bytes).await;
    ask(&server, "GET").await
}

async fn ask(server: &RawServer, method: &str) -> TestResponse {
    let origin = format!("http://{}", server.address);
    let mut granted = grant(&[&origin], &["127.0.0.1/32"]);
    granted.body_max = 1_000;
    HttpGuest::with(granted, client(Default::default()))
        .ask(&*format!("{method} {origin}/\n"))
        .await
}

#[tokio::test]
async fn a_response_is_passed_unchanged() {
    let answer = said("HTTP/1.1 299 Odd\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty:\r\nX-Tab: a\tb\r\nContent-Length: 3\r\n\r\nabc").await;
    assert_eq!((answer.code, answer.text()), (299, "abc"));
    assert_eq!(
        answer.head,
        "content-length: 3\nx-a: 1, 2\nx-empty: \nset-cookie: a=1\nset-cookie: b=2\n"
    );
    // A compressed body stays compressed, and a redirect is a normal response.
    let gzip =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00";
    assert_eq!(said(gzip).await.body, b"\x1f\x8b\x08\x00");
    let answer = said("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!((answer.code, answer.header("location")), (302, Some("/there")));
    // The response to HEAD states how long the body would be.
    let server = RawServer::say("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n").await;
    let answer = ask(&server, "HEAD").await;
    assert_eq!(
        (answer.code, answer.header("content-length"), answer.body_length),
        (200, Some("5000"), 0)
    );
    // An informational response is skipped.
    let answer = said(
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    assert_eq!(answer.code, 404);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whatever_its_declared_length() {
    let full = "x".repeat(1_000);
    let over = "x".repeat(1_001);
    let chunked = |body: &str| {
        let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}")
    };
    for whole in [
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{full}"),
        format!("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{over}"),
        format!("HTTP/1.1 200 OK\r\n\r\n{full}"),
        chunked(&full),
    ] {
        let answer = said(whole).await;
        assert_eq!((answer.code, answer.body_length), (200, 1_000), "{}", answer.error);
    }
    for large in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n\r\n{over}"),
        chunked(&over),
    ] {
        let answer = said(large).await;
        assert_eq!((answer.code, answer.body_length), (-4, 0));
        assert!(
            answer.error.contains("1000 bytes") && answer.error.contains("http_body"),
            "{}",
            answer.error
        );
    }
}

#[tokio::test]
async fn an_endless_body_is_refused_at_the_limit() {
    let server = RawServer::serve(|mut connection| async move {
        let begun = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        // Until the client disconnects.
        while begun.is_ok() && connection.write_all(&[b'x'; 4_096]).await.is_ok() {}
    });
    assert_eq!(ask(&server.await, "GET").await.code, -4);
}

#[tokio::test]
async fn an_endless_head_is_refused() {
    let server = RawServer::serve(|mut connection| async move {
        let begun = connection.write_all(b"HTTP/1.1 200 OK\r\n").await;
        let line = format!("x-a: {}\r\n", "x".repeat(1_000));
        while begun.is_ok() && connection.write_all(line.as_bytes()).await.is_ok() {}
    });
    let answer = ask(&server.await, "GET").await;
    assert_eq!(answer.code, -4, "{}", answer.error);
    let line = format!("x-a: {}\r\n", "x".repeat(5_000));
    let answer = said(format!("HTTP/1.1 200 OK\r\n{}\r\n", line.repeat(4))).await;
    assert_eq!(answer.code, -4, "{}", answer.error);
    assert!(answer.error.contains("16 KiB"), "{}", answer.error);
    let answer = said(format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-a: b\r\n".repeat(200))).await;
    assert_eq!(answer.code, -4, "{}", answer.error);
}

#[tokio::test]
async fn a_malformed_response_is_unavailable() {
    for bytes in [
        &b""[..],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        b"HTTP/1.1 999 Request denied\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nb\x00d: 1\r\n\r\n",
    ] {
        let answer = said(bytes).await;
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!((answer.code, answer.body_length), (-6, 0), "{shown}: {}", answer.error);
        assert!(answer.error.contains("http://127.0.0.1:"), "{shown}: {}", answer.error);
    }
}

#[tokio::test]
async fn a_refused_connection_is_unavailable() {
    let (listener, address) = web_servers::listen().await;
    drop(listener);
    let origin = format!("http://{address}");
    let answer = HttpGuest::to(&[&origin]).ask(&*format!("GET {origin}/\n")).await;
    assert_eq!(answer.code, -6);
    assert!(answer.error.contains("cannot be reached"), "{}", answer.error);
}

#[tokio::test]
async fn a_reset_in_the_middle_is_unavailable() {
    let server = RawServer::serve(|mut connection| async move {
        let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
        if connection.write_all(half).await.is_ok() {
            // Closed at once with a reset.
            connection.set_zero_linger().unwrap();
        }
    });
    assert_eq!(ask(&server.await, "GET").await.code, -6);
}

/// A server that sends this, and then nothing until the client disconnects.
async fn stalling_server(beginning: &'static str) -> RawServer {
    RawServer::serve(move |mut connection| async move {
        if connection.write_all(beginning.as_bytes()).await.is_ok() {
            let _gone = connection.read_u8().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_call_ends_at_its_time_limit() {
    for beginning in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"] {
        let server = stalling_server(beginning).await;
        let origin = format!("http://{}", server.address);
        let head = format!("GET {origin}/\n");
        let began = Instant::now();
        let answer = HttpGuest::to(&[&origin])
            .ask(TestRequest { head: &head, body: b"", timeout: 200 })
            .await;
        assert_eq!(answer.code, -5, "{beginning:?}: {}", answer.error);
        assert!(began.elapsed() >= Duration::from_millis(200));
        assert!(answer.error.contains("200ms"), "{}", answer.error);
    }
}

#[tokio::test]
async fn a_slow_body_does_not_extend_the_time_limit() {
    let server = RawServer::serve(|mut connection| async move {
        let begun = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut beat = tokio::time::interval(Duration::from_millis(20));
        while begun.is_ok() && connection.write_all(b"x").await.is_ok() {
            beat.tick().await;
        }
    })
    .await;
    let origin = format!("http://{}", server.address);
    let head = format!("GET {origin}/\n");
    let answer =
        HttpGuest::to(&[&origin]).ask(TestRequest { head: &head, body: b"", timeout: 300 }).await;
    assert_eq!(answer.code, -5, "{}", answer.error);
}

#[tokio::test]
async fn connections_are_reused_for_the_next_request() {
    let server = RawServer::serve(|mut connection| async move {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let mut request = [0; 4_096];
        while connection.write_all(answer).await.is_ok() {
            if !matches!(connection.read(&mut request).await, Ok(1..)) {
                break;
            }
        }
    })
    .await;
    let origin = format!("http://{}", server.address);
    let guest = HttpGuest::to(&[&origin]);
    for _ in 0..5 {
        assert_eq!(guest.ask(&*format!("GET {origin}/\n")).await.code, 200);
    }
    assert_eq!(server.taken(), 1);
}
