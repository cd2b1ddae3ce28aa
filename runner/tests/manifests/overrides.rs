//! Flags and variables override the file, topics override `[defaults]`, and names precede patterns.

use std::path::Path;

use duebox::manifest::{Environment, Flags, Manifest};

use super::{accepted, environment, name, seconds};

#[test]
fn flags_override_variables_and_variables_the_file() {
    let url = |flag: Option<&str>, variable: Option<&str>| {
        let flags = Flags { redis_url: flag.map(str::to_owned), ..Flags::default() };
        let variables = variable.map(|url| ("DUEBOX_REDIS_URL".to_owned(), url.to_owned()));
        let text = "[redis]\nurl = \"redis://file\"\n".to_owned();
        let environment = Environment::new(flags, variables);
        Manifest::parse(Path::new("m.toml"), text, &environment).map(|m| m.redis.url.to_string())
    };
    assert_eq!(url(None, None).unwrap(), "redis://file");
    assert_eq!(url(None, Some("redis://variable")).unwrap(), "redis://variable");
    assert_eq!(url(Some("unix:///flag"), Some("redis://variable")).unwrap(), "unix:///flag");
    assert_eq!(url(Some("managed"), None).unwrap(), "managed in ./data");
    let refused = url(None, Some("http://variable")).unwrap_err().to_string();
    assert!(refused.contains("`DUEBOX_REDIS_URL`: http:// is not a Redis scheme"), "{refused}");
}

#[test]
fn a_variable_overrides_listen_and_an_open_address_is_refused() {
    let listen = |variable: &str, text: &str| {
        let variables = [("DUEBOX_LISTEN".to_owned(), variable.to_owned())];
        let environment = Environment::new(Flags::default(), variables);
        let manifest = Manifest::parse(Path::new("m.toml"), text.to_owned(), &environment);
        manifest.map(|manifest| manifest.server.listen.map(|listen| listen.to_string()))
    };
    let file = |listen: &str| format!("[server]\nlisten = \"{listen}\"\n");
    let default = Some("127.0.0.1:7280".to_owned());
    assert_eq!(listen("", "[topics.a]\n").unwrap(), default);
    assert_eq!(listen("", &file("localhost:1")).unwrap().as_deref(), Some("127.0.0.1:1"));
    assert_eq!(listen("[::1]:2", &file("127.0.0.1:1")).unwrap().as_deref(), Some("[::1]:2"));
    assert_eq!(listen("", &file("")).unwrap(), None);
    let open = "0.0.0.0:7280";
    for refused in [listen(open, "[topics.a]\n"), listen("", &file(open))] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("insecure = true"), "{refused}");
    }
    let meant = format!("{}insecure = true\n", file(open));
    assert_eq!(listen("", &meant).unwrap().as_deref(), Some(open));
    let refused = listen("example.org:80", "[topics.a]\n").unwrap_err().to_string();
    assert!(refused.contains("`DUEBOX_LISTEN` is not an address"), "{refused}");
}

#[test]
fn without_handlers_secrets_and_directories_are_not_checked() {
    let text = "[topics.a]\nhandler = \"a.wasm\"\n[topics.a.sandbox]\n\
        secrets = { key = { env = \"NO_SUCH_VARIABLE\" } }\ndirs = { \"/data\" = \"/no/such/dir\" }\n";
    let parse = |environment: &Environment| {
        Manifest::parse(Path::new("m.toml"), text.to_owned(), environment)
    };
    assert_eq!(parse(&environment()).unwrap_err().problems().len(), 2);
    let topic = parse(&environment().without_handlers()).unwrap().topics[&name("a")].clone();
    assert_eq!((topic.grants.config.len(), topic.secrets.len()), (0, 1));
}

#[test]
fn too_many_secrets_or_directories_are_refused_including_the_defaults() {
    let entry = |at: usize, value: &str| format!("\"/{at}\" = {value}\n");
    let table = |of: &str, key: &str, count: std::ops::Range<usize>, value: &str| {
        let entries: String = count.map(|at| entry(at, value)).collect();
        format!("[{of}.sandbox.{key}]\n{entries}")
    };
    for (key, value, max) in [("secrets", "{ env = \"REGION\" }", 100), ("dirs", "\"/\"", 16)] {
        let parse = |count: usize| {
            let text = table("defaults", key, 0..10, value)
                + "[topics.a]\nhandler = \"a.wasm\"\n"
                + &table("topics.a", key, 10..count, value);
            Manifest::parse(Path::new("m.toml"), text, &environment())
        };
        assert!(parse(max).is_ok(), "{key}");
        let refused = parse(max + 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("`{key}` has {} entries", max + 1)), "{refused}");
    }
}

#[test]
fn a_name_precedes_patterns_and_the_longest_pattern_the_others() {
    let manifest = accepted("full.toml");
    let ttr = |text: &str| manifest.topic_for(&name(text)).map(|topic| topic.ttr);
    assert_eq!(ttr("order.close"), Some(seconds(45)));
    assert_eq!((ttr("sms.us"), ttr("sms.eu.de")), (Some(seconds(10)), Some(seconds(5))));
    assert_eq!((ttr("order.closed"), ttr("sms")), (None, None));
    let text = "[topics.\"a.*\"]\nttr = \"1s\"\n[topics.\"a.b\"]\nttr = \"2s\"\n".to_owned();
    let both = Manifest::parse(Path::new("m.toml"), text, &environment()).unwrap();
    assert_eq!(both.topic_for(&name("a.b")).unwrap().ttr, seconds(2));
    assert_eq!(both.topic_for(&name("a.bc")).unwrap().ttr, seconds(1));
    assert_eq!(both.all_settings().count(), 2);
}
