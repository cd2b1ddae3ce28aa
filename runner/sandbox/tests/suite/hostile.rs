//! The hostile modules: each ends as its first line says, and a neighbour never notices.

use std::fs;
use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{Grants, Limits};

use crate::kit::{ACKS, Ran, hostile_modules, job, load, run, sandbox};

/// What a run came to, as the first line of a hostile module names it.
fn ended(ran: &Ran) -> &'static str {
    match &ran.report.outcome {
        Outcome::Acked => "ack",
        Outcome::Failed(failure) => failure.class.name(),
        Outcome::Snoozed { .. } => "snooze",
        Outcome::HostFault(_) => "host fault",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_ends_as_its_first_line_says() {
    let neighbour = load(ACKS);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in fs::read_dir(hostile_modules()).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first).into_owned();
        let expected = first.strip_prefix(";; expect: ").unwrap_or_else(|| panic!("{name}"));
        // What ends by itself gets the time that a loaded machine may need for it.
        let ttr = if expected == "timeout" { 300 } else { 60_000 };
        let granted = Grants { push: Some(vec!["granted.*".to_owned()]), ..Grants::default() };
        let handler = sandbox().load(&text, Limits::default(), granted);
        let handler = handler.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut hostile = job();
        hostile.ttr = Duration::from_millis(ttr);
        let (ran, beside) = tokio::join!(run(&handler, hostile), run(&neighbour, job()));
        assert_eq!(beside.report.outcome, Outcome::Acked, "beside {name}");
        if ended(&ran) != expected {
            wrong.push(format!("{name}: expected {expected}, got {:?}", ran.report.outcome));
        }
        seen += 1;
    }
    assert!(seen > 45, "only {seen} hostile modules were found");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_class_a_guest_can_earn_has_a_hostile_module() {
    let names: Vec<String> = fs::read_dir(hostile_modules())
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .map(|text| text.lines().next().unwrap_or_default().to_owned())
        .collect();
    for class in [
        FailureClass::Trap,
        FailureClass::Timeout,
        FailureClass::OutOfMemory,
        FailureClass::StackOverflow,
        FailureClass::Exit,
        FailureClass::BadVerdict,
    ] {
        assert!(names.contains(&format!(";; expect: {class}")), "{class}");
    }
}
