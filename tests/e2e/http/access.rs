//! Access to the API: tokens with scopes and topics, pages of other sites, and an address that is in use.

use duebox_harness::{Daemon, eventually};

use crate::support::client::{address, ask, fixture, get, post, token};
use crate::support::fixture::Fixture;
use crate::support::handler::Handler;

const MAIL: &str = "POST /v1/topics/mail/jobs";
const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn a_token_allows_its_scopes_and_topics_and_follows_its_file() {
    let fixture = Fixture::new();
    let (pusher, push_table) = token(&fixture, "shop", "push", "mail,order.*");
    let (consumer, consume_table) = token(&fixture, "post", "consume", "*");
    let (boss, boss_table) = token(&fixture, "boss", "admin", "*");
    let (reader, read_table) = token(&fixture, "help", "read", "mail");
    fixture.write("tokens.toml", format!("{push_table}\n{consume_table}\n{read_table}\n"));
    fixture.manifest(
        "",
        &["[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n[topics.fax]\n".to_owned()],
    );
    let daemon = fixture.start();
    let at = address(&daemon);
    let with = |line: &str, token: &str| ask(at, line, &[JSON, ("authorization", token)], b"{}");
    let nobody = post(at, "/v1/topics/mail/jobs", "{}");
    assert_eq!((nobody.problem().as_str(), nobody.status), ("unauthorized", 401));
    assert!(nobody.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer")));
    assert_eq!(with(MAIL, "Bearer duebox_guess").status, 401);
    assert_eq!(with(MAIL, &pusher).status, 201);
    let other = with("POST /v1/topics/fax/jobs", &pusher);
    assert_eq!((other.problem().as_str(), other.status), ("forbidden", 403));
    let scope = with("POST /v1/topics/mail/leases", &pusher);
    assert!(scope.status == 403 && scope.text().contains("consume"), "{scope:?}");
    let leased = with("POST /v1/topics/mail/leases", &consumer).json();
    let id = leased["jobs"][0]["id"].as_str().unwrap();
    // Only scope read shows payloads, results and failures.
    let (job, dead) = (format!("GET /v1/topics/mail/jobs/{id}"), "GET /v1/topics/mail/dead");
    for line in [job.as_str(), dead, "GET /v1/topics/mail/jobs"] {
        for token in [&pusher, &consumer] {
            let refused = with(line, token);
            assert!(refused.status == 403 && refused.text().contains("scope read"), "{refused:?}");
        }
        assert_eq!(with(line, &reader).status, 200, "{line}");
    }
    assert_eq!(with(&job, &reader).json()["lease"]["holder"], "post");
    assert_eq!(with(MAIL, &reader).status, 403);
    assert_eq!(with("DELETE /v1/topics/mail/dead", &reader).status, 403);
    assert_eq!(with("POST /v1/topics/mail/pause", &consumer).status, 403);
    let topics = with("GET /v1/topics", &pusher).json();
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(1), "{topics}");
    assert_eq!(get(at, "/openapi.json").status, 200);
    // The new file removes one token and adds another.
    fixture.write("tokens.toml", &boss_table);
    eventually("the new token holds", || with("POST /v1/topics/mail/pause", &boss).status == 200);
    assert_eq!(with(MAIL, &pusher).status, 401);
    // An invalid file is refused, and the previous one stays in force.
    fixture.write("tokens.toml", "[boss]\n");
    daemon.wait_for_line("the refusal", |line| line.message().contains("tokens.toml"));
    assert_eq!(with("POST /v1/topics/mail/resume", &boss).status, 200);
}

#[test]
fn metrics_and_details_of_probes_need_a_token_where_tokens_are_set() {
    let fixture = Fixture::new();
    let (pusher, push_table) = token(&fixture, "shop", "push", "*");
    let (scraper, metrics_table) = token(&fixture, "prometheus", "metrics", "*");
    fixture.write("tokens.toml", format!("{push_table}\n{metrics_table}\n"));
    let missing = "[topics.secret-plan]\nhandler = \"missing.wasm\"\n";
    let manifest = |open: bool, more: &str| {
        let keys = "tokens = \"tokens.toml\"\nprobes = \"127.0.0.1:0\"";
        let server = format!("[server]\n{keys}\nopen_metrics = {open}\n[topics.mail]\n{more}");
        fixture.manifest("", &[server]);
    };
    manifest(false, "");
    let daemon = fixture.start();
    let at = address(&daemon);
    let probes = daemon.wait_for_line("probes", |line| line.message() == "probes are served");
    let with = |line: &str, token: &str| ask(at, line, &[("authorization", token)], b"");
    let nobody = get(at, "/metrics");
    assert_eq!((nobody.problem().as_str(), nobody.status), ("unauthorized", 401));
    assert!(nobody.header("www-authenticate").is_some());
    assert_eq!(with("GET /metrics", &pusher).status, 403);
    assert_eq!(with("GET /metrics", &scraper).status, 200);
    manifest(false, missing);
    eventually("the module is missing", || get(at, "/readyz").status == 503);
    let bare = get(at, "/readyz");
    assert!(bare.status == 503 && bare.text().contains("[-] modules failed\n"), "{bare:?}");
    assert!(!bare.text().contains("secret"), "{bare:?}");
    assert!(with("GET /readyz", &scraper).text().contains("secret-plan"));
    let json = ask(at, "GET /readyz", &[("accept", "application/json")], b"");
    assert!(!json.text().contains("secret"), "{json:?}");
    // The address of the probes is for those who can reach it.
    let apart = probes.str("address").parse().unwrap();
    assert_eq!(get(apart, "/metrics").status, 200);
    assert!(get(apart, "/readyz").text().contains("secret-plan"));
    manifest(true, missing);
    eventually("they are open", || get(at, "/metrics").status == 200);
    assert!(get(at, "/readyz").text().contains("secret-plan"));
}

#[test]
fn a_cookie_behind_a_proxy_with_tls_is_secure() {
    let fixture = Fixture::new();
    let (boss, table) = token(&fixture, "boss", "admin", "*");
    fixture.write("tokens.toml", table);
    let server = "[server]\ntokens = \"tokens.toml\"\npublic_url = \"https://box.example\"\n";
    fixture.manifest("", &[format!("{server}[topics.mail]\n")]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let origin = ("origin", "https://box.example");
    let body = format!("{{\"token\":\"{}\"}}", boss.trim_start_matches("Bearer "));
    let opened = ask(at, "POST /session", &[JSON, origin], body.as_bytes());
    let cookie = opened.header("set-cookie").unwrap_or_else(|| panic!("{opened:?}"));
    assert!(cookie.starts_with("__Host-duebox=") && cookie.contains("; Secure"), "{cookie}");
    let cookie = ("cookie", cookie.split(';').next().unwrap());
    let page = [JSON, origin, cookie, ("x-duebox-page", "1")];
    assert_eq!(ask(at, MAIL, &page, b"{}").status, 201);
    let foreign = [JSON, ("origin", "https://evil.example"), cookie, ("x-duebox-page", "1")];
    assert_eq!(ask(at, MAIL, &foreign, b"{}").status, 403);
}

#[test]
fn a_topic_does_not_tell_where_its_files_are() {
    let fixture = Fixture::new();
    fixture.write("work.wasm", Handler::logs("x").wasm());
    fixture.manifest("", &["[topics.mail]\nhandler = \"work.wasm\"\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    for path in ["/v1/topics", "/v1/topics/mail"] {
        let shown = get(at, path);
        let folder = fixture.path("").display().to_string();
        assert!(!shown.text().contains(folder.trim_end_matches('/')), "{shown:?}");
    }
    assert_eq!(get(at, "/v1/topics/mail").json()["handler"], "work.wasm");
}

#[test]
fn pages_of_other_sites_are_refused() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    let from = |origin: &str| ask(at, MAIL, &[JSON, ("origin", origin)], b"{}");
    assert_eq!(from("https://evil.example").problem(), "foreign-origin");
    assert_eq!(from("null").problem(), "foreign-origin");
    assert_eq!(from("http://localhost").status, 201);
}

#[test]
fn listed_origins_may_call_while_they_are_listed() {
    const SHOP: &str = "https://shop.example";
    let fixture = Fixture::new();
    let (pusher, table) = token(&fixture, "shop", "push", "mail");
    fixture.write("tokens.toml", table);
    let allow = |sites: &str| {
        let server =
            format!("[server]\ntokens = \"tokens.toml\"\ncors = [{sites}]\n[topics.mail]\n");
        fixture.manifest("", &[server]);
    };
    allow("\"https://else.example\"");
    let daemon = fixture.start();
    let at = address(&daemon);
    let asks = [("access-control-request-method", "POST"), ("access-control-request-headers", "x")];
    let before = |origin| {
        let headers = [("origin", origin), asks[0], asks[1]];
        ask(at, "OPTIONS /v1/topics/mail/jobs", &headers, b"")
    };
    let push =
        |origin, token| ask(at, MAIL, &[JSON, ("origin", origin), ("authorization", token)], b"{}");
    // Not listed yet.
    let refused = before(SHOP);
    assert_eq!((refused.problem().as_str(), refused.status), ("method", 405));
    assert_eq!(refused.header("vary"), Some("origin"), "{refused:?}");
    assert_eq!(push(SHOP, &pusher).problem(), "foreign-origin");
    allow(&format!("\"{SHOP}\", \"http://localhost:3000\""));
    eventually("the page is let in", || before(SHOP).status == 200);
    let allowed = before(SHOP);
    let header = |name: &str| allowed.header(&format!("access-control-{name}")).map(str::to_owned);
    assert_eq!(header("allow-origin").as_deref(), Some(SHOP));
    assert_eq!(header("allow-methods").as_deref(), Some("GET,HEAD,POST,DELETE"));
    assert_eq!(
        (header("allow-headers").as_deref(), header("max-age").as_deref()),
        (Some("x"), Some("600"))
    );
    assert_eq!(header("allow-credentials"), None, "{allowed:?}");
    assert!(allowed.header("x-request-id").is_some() && allowed.body.is_empty(), "{allowed:?}");
    // The request still needs its token, and the page can read its refusal.
    let pushed = push(SHOP, &pusher);
    assert_eq!((pushed.status, pushed.header("access-control-allow-origin")), (201, Some(SHOP)));
    let nobody = push(SHOP, "Bearer duebox_guess");
    assert_eq!((nobody.status, nobody.header("access-control-allow-origin")), (401, Some(SHOP)));
    // Similar origins are refused, and so is a removed one.
    for other in ["https://shop.example.evil.example", "https://shop.example:8443", "null"] {
        assert_eq!((before(other).status, push(other, &pusher).status), (405, 403), "{other}");
    }
    let plain = ask(at, "OPTIONS /v1/topics/mail/jobs", &[("origin", SHOP)], b"");
    assert_eq!(plain.problem(), "method");
    allow("");
    eventually("the page is out", || push(SHOP, &pusher).status == 403);
    assert_eq!(before(SHOP).status, 405);
}

#[test]
fn an_address_in_use_is_reported_and_an_empty_one_serves_no_http() {
    let (fixture, _daemon, at) = fixture("[topics.mail]\n");
    let manifest = fixture.path("duebox.toml");
    let listen = |address: String| {
        Daemon::start_with(&manifest, |command| {
            command.env("DUEBOX_LISTEN", address);
        })
    };
    let mut second = listen(at.to_string());
    assert_eq!(second.wait_exit().code(), Some(1));
    let reported = second.count(|line| {
        line.text().contains("another process, possibly another duebox, listens there")
    });
    assert_eq!(reported, 1, "{:?}", second.lines());
    // An address other than loopback needs `insecure`.
    let mut open = listen("0.0.0.0:0".to_owned());
    assert_eq!(open.wait_exit().code(), Some(2));
}
