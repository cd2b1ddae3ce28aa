//! The page "Testing, recording and replay": its commands do what it says, in the order of the page.

use std::fs;
use std::path::Path;

use duebox_harness::{duebox_binary, eventually};
use redis::cmd;

use crate::support::fixture::Fixture;
use crate::support::redis_state::key;
use crate::support::shell;

/// The blocks of the page in one language.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/testing.md");
    let page = fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_page_of_testing_works() {
    let fixture = Fixture::new();
    let folder = fixture.path("");
    let (handler, files, commands) = (blocks("js"), blocks("toml"), blocks("sh"));
    let [manifest, exchange, cases] = &files[..] else { panic!("{files:#?}") };
    let [invoke, lines, test, update, push, replay, candidate] = &commands[..] else {
        panic!("{commands:#?}")
    };
    let run = |block: &str| shell::run(block, &folder, duebox_binary().parent().unwrap(), &[]);
    for name in ["shop", "tests"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fixture.write("order.js", &handler[0]);
    fixture.write("duebox.toml", format!("[redis]\nurl = \"{}\"\n{manifest}", fixture.redis.url()));
    fixture.write("shop/cancel.toml", exchange);
    fixture.write("tests/cancel.toml", cases);

    let printed = run(invoke);
    for part in ["verdict  ack\n", "push     mail ", "log      info  cancelled 42\n"] {
        assert!(printed.contains(part), "{part} is missing: {printed}");
    }
    assert_eq!(printed, run(invoke), "it is deterministic");
    let printed = run(lines);
    assert!(
        printed.contains("2 jobs: 2 ack in ") && printed.contains("cancelled = 9"),
        "{printed}"
    );
    let printed = run(test);
    assert!(printed.contains("\n2 passed, 0 failed in "), "{printed}");
    let printed = run(update);
    assert!(printed.contains("updated order.cancel  an unknown order\n"), "{printed}");
    let written = fs::read_to_string(folder.join("tests/cancel.toml")).unwrap();
    assert!(written.contains("status = 404 }]\nexpect = \"drop\"\n"), "{written}");
    assert!(run(test).contains("\n3 passed, 0 failed in "));

    let _daemon = fixture.start();
    run(push);
    eventually("its recording", || {
        fixture.store().ask::<usize>(cmd("HLEN").arg(key("order.cancel", "recordings"))) == 1
    });
    let printed = run(replay);
    assert!(printed.contains("the recorded end, with the same figures\n"), "{printed}");
    // It exits with 1, because the candidate departs.
    let candidate = candidate.trim_end().replace(" --last", " --json --last");
    let printed = run(&format!("{candidate} || [ $? = 1 ]"));
    assert!(printed.contains("\"departures\":[{\"request\":1,"), "{printed}");
    assert!(printed.contains("\"other\":1"), "{printed}");
}
