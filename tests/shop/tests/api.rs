//! The shop's HTTP API with curl: the token, refusals, and faults.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::process::Command;

use duebox_shop::Shop;
use tokio::runtime::Runtime;

/// A shop, and the runtime that serves it.
fn open(token: Option<&str>) -> (Runtime, Shop) {
    let runtime = Runtime::new().unwrap();
    let shop = runtime.block_on(Shop::open(0, token.map(str::to_owned))).unwrap();
    (runtime, shop)
}

/// Sends a request with curl; the output ends with the status.
fn ask(shop: &Shop, path: &str, args: &[&str]) -> String {
    let url = shop.origin() + path;
    let form = ["-s", "-w", " %{http_code}", "-H", "content-type: application/json", &url];
    let output = Command::new("curl").args(form).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_path_but_the_ledger_requires_the_token() {
    let (_runtime, shop) = open(Some("let-me-in"));
    shop.books().place_order("A-1", &[]);
    for shown in ["x: y", "authorization: Bearer let-me", "authorization: let-me-in"] {
        assert!(ask(&shop, "/orders/A-1", &["-H", shown]).ends_with(" 401"), "{shown}");
        assert!(ask(&shop, "/faults", &["-X", "DELETE", "-H", shown]).ends_with(" 401"), "{shown}");
    }
    let shown = "authorization: Bearer let-me-in";
    assert!(ask(&shop, "/orders/A-1", &["-H", shown]).ends_with(" 200"));
    assert_eq!(ask(&shop, "/ledger", &[]), " 200");
}

#[test]
fn invalid_requests_are_refused_and_change_nothing() {
    let (_runtime, shop) = open(None);
    let mail = r#"{"recipient":"a@b.example","subject":"s","text":"t"}"#;
    let key = "idempotency-key: k";
    for (path, args, status) in [
        ("/orders/none", &[][..], 404),
        ("/orders/none/close", &["-X", "POST"], 404),
        ("/payments/none", &[], 404),
        ("/messages", &["-d", mail], 400),
        ("/messages", &["-H", key, "-d", "{"], 400),
        ("/messages", &["-H", key, "-d", r#"{"recipient":"x","subject":"s","text":"t"}"#], 422),
        ("/messages", &["-H", key, "-d", r#"{"to":"a@b.example"}"#], 422),
        ("/faults", &["-d", r#"{"on":"/","fault":{"answer":{"status":99}}}"#], 400),
        ("/faults", &["-d", r#"{"on":"/","fault":"flood"}"#], 422),
        ("/faults", &["-d", r#"{"on":"/","fault":"hang","time":2}"#], 422),
        ("/nowhere", &[], 404),
    ] {
        let response = ask(&shop, path, args);
        assert!(response.ends_with(&format!(" {status}")), "{path} {args:?}: {response}");
    }
    assert!(shop.books().ledger().is_empty() && shop.books().messages().is_empty());
}

#[test]
fn a_fault_applies_as_often_as_requested_and_a_lost_response_had_its_effect() {
    let (_runtime, shop) = open(None);
    shop.books().place_order("A-1", &[]);
    let busy = r#"{"on":"/orders","times":2,"fault":{"answer":{"status":429,"retry_after":"3"}}}"#;
    assert_eq!(ask(&shop, "/faults", &["-d", busy]), " 204");
    for _ in 0..2 {
        let response = ask(&shop, "/orders/A-1", &["-i"]);
        assert!(
            response.contains("retry-after: 3\r\n") && response.ends_with(" 429"),
            "{response}"
        );
    }
    assert!(ask(&shop, "/orders/A-1", &[]).ends_with(" 200"));

    assert_eq!(
        ask(&shop, "/faults", &["-d", r#"{"on":"/orders/A-1/close","fault":"lost"}"#]),
        " 204"
    );
    let close = ["-X", "POST", "-H", "idempotency-key: k"];
    assert!(ask(&shop, "/orders/A-1/close", &close).ends_with(" 502"));
    assert!(ask(&shop, "/orders/A-1/close", &close).ends_with(" 200"));
    let effects: Vec<bool> = shop.books().ledger().iter().map(|entry| entry.effect).collect();
    assert_eq!(effects, [true, false]);
}

#[test]
fn a_repeat_of_the_same_attempt_does_not_advance_the_state() {
    let (_runtime, shop) = open(None);
    shop.books().start_payment("p", &["open", "pending", "paid"]);
    let query =
        |attempt: &str| ask(&shop, "/payments/p", &["-H", "idempotency-key: k", "-H", attempt]);
    for (attempt, state) in
        [("1", "open"), ("1", "open"), ("2", "pending"), ("3", "paid"), ("4", "paid")]
    {
        let response = query(&format!("duebox-attempt: {attempt}"));
        assert!(response.contains(&format!("\"state\":\"{state}\"")), "{attempt}: {response}");
    }
}
