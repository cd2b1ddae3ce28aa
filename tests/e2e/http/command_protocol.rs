//! The command protocol: add, pop, finish, delete, and redelivery after the TTR.

use std::net::SocketAddr;

use duebox_harness::eventually;
use serde_json::{Value, json};

use crate::support::client::{address, ask, fixture, post, token};
use crate::support::fixture::Fixture;

fn say(at: SocketAddr, command: &Value) -> Value {
    let answer = post(at, "/", &command.to_string());
    assert_eq!(answer.status, 200, "{command}: {answer:?}");
    answer.json()
}

#[test]
fn a_job_goes_from_add_to_finish() {
    let (fixture, _daemon, at) = fixture("[topics.mail]\n[topics.fax]\n");
    let add = json!({"command": "add", "topic": "mail", "id": 42, "delay": 0, "TTR": 60, "body": {"a": 1}});
    assert_eq!(say(at, &add)["success"], true);
    // Ids are global.
    let other = json!({"command": "add", "topic": "fax", "id": "42", "body": ""});
    let refused = say(at, &other);
    assert_eq!(refused["success"], false);
    assert!(
        refused["error"].as_str().unwrap().contains("a live job in mail has id 42"),
        "{refused}"
    );
    let pop = json!({"command": "pop", "topic": "mail", "wait": 30});
    let popped = say(at, &pop);
    assert_eq!((&popped["id"], &popped["value"]), (&"42".into(), &json!({"a": 1})), "{popped}");
    assert_eq!(say(at, &json!({"command": "pop", "topic": "mail"}))["success"], false);
    let finish = json!({"command": "finish", "id": "42"});
    assert_eq!(say(at, &finish)["success"], true);
    let again = say(at, &finish);
    assert_eq!((&again["success"], &again["id"]), (&false.into(), &"42".into()), "{again}");
    assert_eq!(fixture.store().live_count("mail"), 0);
    // The id is free now.
    assert_eq!(say(at, &other)["success"], true);
    assert_eq!(say(at, &json!({"command": "delete", "id": "42"}))["success"], true);
    assert_eq!(say(at, &json!({"command": "delete", "id": "42"}))["success"], false);
    assert_eq!(fixture.store().live_count("fax"), 0);
}

#[test]
fn an_unfinished_job_is_redelivered_and_a_late_finish_is_refused() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    let add = json!({"command": "add", "topic": "mail", "id": "1", "TTR": 0.2, "body": "x"});
    assert_eq!(say(at, &add)["success"], true);
    let pop = |who: &str| json!({"command": "pop", "topic": "mail", "wait": 60, "consumer": who});
    let first = say(at, &pop("a"));
    assert_eq!((&first["id"], &first["value"]), (&"1".into(), &"x".into()), "{first}");
    let mut second = json!({});
    eventually("it comes again", || {
        second = say(at, &pop("b"));
        second["id"] == "1"
    });
    for late in [
        json!({"command": "finish", "id": "1", "consumer": "a"}),
        json!({"command": "finish", "id": "1", "token": first["token"]}),
    ] {
        let refused = say(at, &late);
        let error = refused["error"].as_str().unwrap_or_default();
        // Unless the second TTR has passed too.
        assert!(refused["success"] == false && error.contains("TTR"), "{refused}");
    }
}

#[test]
fn each_token_has_ids_of_its_own() {
    let fixture = Fixture::new();
    let (shop, shop_table) = token(&fixture, "shop", "push", "mail");
    let (bank, bank_table) = token(&fixture, "bank", "push,consume", "fax");
    fixture.write("tokens.toml", format!("{shop_table}\n{bank_table}\n"));
    let topics = "[server]\ntokens = \"tokens.toml\"\n[topics.mail]\n[topics.fax]\n";
    fixture.manifest("", &[topics.to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let say = |token: &str, command: Value| {
        let headers = [("content-type", "application/json"), ("authorization", token)];
        let answer = ask(at, "POST /", &headers, command.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{command}: {answer:?}");
        assert!(!answer.text().contains("mail"), "{answer:?}");
        answer.json()["success"] == true
    };
    let add = |topic: &str| json!({"command": "add", "topic": topic, "id": "42", "body": "x"});
    let (finish, delete) =
        (json!({"command": "finish", "id": "42"}), json!({"command": "delete", "id": "42"}));
    assert!(say(&shop, add("mail")));
    // The id of another token is neither found nor reserved.
    assert!(!say(&bank, finish.clone()) && !say(&bank, delete.clone()));
    assert!(say(&bank, add("fax")));
    assert!(say(&bank, json!({"command": "pop", "topic": "fax"})) && say(&bank, finish));
    assert_eq!(fixture.store().live_count("mail"), 1);
    assert!(say(&shop, delete));
    assert_eq!(fixture.store().live_count("mail"), 0);
}

#[test]
fn invalid_commands_are_refused() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    for body in [
        "{}",
        r#"{"command":"dance"}"#,
        r#"{"command":"add","topic":"mail"}"#,
        r#"{"command":"add","topic":"mail","id":"1","delay":-1}"#,
        r#"{"command":"add","topic":"mail","id":"1","TTR":0}"#,
        r#"{"command":"add","topic":"mail","id":""}"#,
        r#"{"command":"pop","topic":"mail","wait":61}"#,
    ] {
        assert_eq!(post(at, "/", body).problem(), "bad-request", "{body}");
    }
    assert_eq!(post(at, "/", r#"{"command":"pop","topic":"nail"}"#).problem(), "unknown-topic");
}
