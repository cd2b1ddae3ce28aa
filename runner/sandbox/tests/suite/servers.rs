//! Servers that do not do what they should, as a handler meets them.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::asker::{Answer, Ask, Asker, client, grant};
use crate::web::{self, Raw};

/// What a server's bytes come to, where a response may have 1,000 bytes.
async fn said(bytes: impl Into<Vec<u8>>) -> Answer {
    let server = Raw::say(bytes).await;
    ask(&server, "GET").await
}

async fn ask(server: &Raw, method: &str) -> Answer {
    let origin = format!("http://{}", server.address);
    let mut granted = grant(&[&origin], &["127.0.0.1/32"]);
    granted.body_max = 1_000;
    Asker::with(granted, client(Default::default())).ask(&*format!("{method} {origin}/\n")).await
}

#[tokio::test]
async fn a_response_is_handed_over_as_it_is() {
    let answer = said("HTTP/1.1 299 Odd\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty:\r\nX-Tab: a\tb\r\nContent-Length: 3\r\n\r\nabc").await;
    assert_eq!((answer.code, answer.text()), (299, "abc"));
    assert_eq!(
        answer.head,
        "content-length: 3\nx-a: 1, 2\nx-empty: \nset-cookie: a=1\nset-cookie: b=2\n"
    );
    // What is compressed stays so, and a redirect is an answer like another.
    let gzip =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00";
    assert_eq!(said(gzip).await.body, b"\x1f\x8b\x08\x00");
    let answer = said("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n").await;
    assert_eq!((answer.code, answer.header("location")), (302, Some("/there")));
    // The answer to HEAD says how long the body would be.
    let server = Raw::say("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n").await;
    let answer = ask(&server, "HEAD").await;
    assert_eq!(
        (answer.code, answer.header("content-length"), answer.body_length),
        (200, Some("5000"), 0)
    );
    // What comes before the answer is none.
    let answer = said(
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    assert_eq!(answer.code, 404);
}

#[tokio::test]
async fn a_body_over_the_cap_is_no_answer_whatever_is_said_of_its_length() {
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
async fn a_body_without_end_is_given_up_at_the_cap() {
    let server = Raw::serve(|mut connection| async move {
        let begun = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        // Until the client closes the connection.
        while begun.is_ok() && connection.write_all(&[b'x'; 4_096]).await.is_ok() {}
    });
    assert_eq!(ask(&server.await, "GET").await.code, -4);
}

#[tokio::test]
async fn a_head_without_end_is_given_up() {
    let server = Raw::serve(|mut connection| async move {
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
async fn what_is_no_response_is_unavailable() {
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
async fn nobody_there_is_unavailable() {
    let (listener, address) = web::listen().await;
    drop(listener);
    let origin = format!("http://{address}");
    let answer = Asker::to(&[&origin]).ask(&*format!("GET {origin}/\n")).await;
    assert_eq!(answer.code, -6);
    assert!(answer.error.contains("cannot be reached"), "{}", answer.error);
}

#[tokio::test]
async fn a_reset_in_the_middle_is_unavailable() {
    let server = Raw::serve(|mut connection| async move {
        let half = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
        if connection.write_all(half).await.is_ok() {
            // Closed at once with a reset instead of an end.
            connection.set_zero_linger().unwrap();
        }
    });
    assert_eq!(ask(&server.await, "GET").await.code, -6);
}

/// A server that begins with this and then keeps silent until the client goes.
async fn stalls(beginning: &'static str) -> Raw {
    Raw::serve(move |mut connection| async move {
        if connection.write_all(beginning.as_bytes()).await.is_ok() {
            let _gone = connection.read_u8().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_call_ends_when_its_time_is_over() {
    for beginning in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"] {
        let server = stalls(beginning).await;
        let origin = format!("http://{}", server.address);
        let head = format!("GET {origin}/\n");
        let began = Instant::now();
        let answer = Asker::to(&[&origin]).ask(Ask { head: &head, body: b"", timeout: 200 }).await;
        assert_eq!(answer.code, -5, "{beginning:?}: {}", answer.error);
        assert!(began.elapsed() >= Duration::from_millis(200));
        assert!(answer.error.contains("200ms"), "{}", answer.error);
    }
}

#[tokio::test]
async fn a_server_that_gives_a_byte_now_and_then_is_not_waited_for_longer() {
    let server = Raw::serve(|mut connection| async move {
        let begun = connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        let mut beat = tokio::time::interval(Duration::from_millis(20));
        while begun.is_ok() && connection.write_all(b"x").await.is_ok() {
            beat.tick().await;
        }
    })
    .await;
    let origin = format!("http://{}", server.address);
    let head = format!("GET {origin}/\n");
    let answer = Asker::to(&[&origin]).ask(Ask { head: &head, body: b"", timeout: 300 }).await;
    assert_eq!(answer.code, -5, "{}", answer.error);
}

#[tokio::test]
async fn connections_are_kept_for_the_next_request() {
    let server = Raw::serve(|mut connection| async move {
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
    let asker = Asker::to(&[&origin]);
    for _ in 0..5 {
        assert_eq!(asker.ask(&*format!("GET {origin}/\n")).await.code, 200);
    }
    assert_eq!(server.taken(), 1);
}
