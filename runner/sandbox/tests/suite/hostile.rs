//! The hostile modules: each ends as its first line states, and does not affect other jobs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{Grants, Handler, Instances, Invocation, Limits};
use tempfile::TempDir;

use crate::http_guest::grant;
use crate::name_server::SilentNetwork;
use crate::support::{ACKS, TestRun, hostile_modules, job, load, run, sandbox};

/// The end of a run, as the first line of a hostile module names it.
fn ended(ran: &TestRun) -> &'static str {
    match &ran.report.outcome {
        Outcome::Acked => "ack",
        Outcome::Failed(failure) => failure.class.name(),
        Outcome::Snoozed { .. } => "snooze",
        Outcome::HostFault(_) => "host fault",
    }
}

/// A hostile module.
pub(crate) struct Hostile {
    name: String,
    text: Vec<u8>,
    pub(crate) expected: String,
    limits: Limits,
    /// Whether it has a directory.
    dirs: bool,
}

/// All hostile modules. The first line of each states how it ends. The second may state its fuel limit, or that
/// it has a directory.
pub(crate) fn corpus() -> Vec<Hostile> {
    let read = |path: PathBuf| {
        let text = fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut lines = text.split(|byte| *byte == b'\n');
        let mut line = || String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let (first, second) = (line(), line());
        let expected = first.strip_prefix(";; expect: ").unwrap_or_else(|| panic!("{name}"));
        let fuel = second.strip_prefix(";; fuel: ").map(|fuel| fuel.parse().unwrap());
        let limits = Limits { fuel, ..Limits::default() };
        let dirs = second == ";; granted: dirs";
        Hostile { name, expected: expected.to_owned(), text, limits, dirs }
    };
    fs::read_dir(hostile_modules()).unwrap().map(|file| read(file.unwrap().path())).collect()
}

/// A directory with a file, and with a link to the outside.
fn readable() -> PathBuf {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "to be read").unwrap();
        symlink("..", folder.path().join("out")).unwrap();
        folder
    });
    FOLDER.path().to_owned()
}

impl Hostile {
    pub(crate) fn load(&self, instances: Instances) -> Handler {
        let dirs = self.dirs.then(|| ("/granted".to_owned(), readable()));
        let granted = Grants {
            push: Some(vec!["granted.*".to_owned()]),
            http: Some(grant(&["http://silent.test"], &[])),
            kv: true,
            dirs: dirs.into_iter().collect(),
            ..Grants::default()
        };
        let limits = Limits { instances, ..self.limits.clone() };
        let handler = sandbox().load(&self.text, limits, granted);
        handler.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    pub(crate) fn job(&self) -> Invocation {
        // A module that ends by itself gets enough time for a loaded machine.
        let ttr = if self.expected == "timeout" { 300 } else { 60_000 };
        Invocation { ttr: Duration::from_millis(ttr), ..job() }
    }

    /// The difference to what its first line states, if there is one.
    pub(crate) fn fault(&self, ran: &TestRun) -> Option<String> {
        let differs = ended(ran) != self.expected;
        differs.then(|| {
            format!("{}: expected {}, got {:?}", self.name, self.expected, ran.report.outcome)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hostile_module_ends_as_its_first_line_states() {
    let (neighbour, network) = (load(ACKS), SilentNetwork::listen().await);
    let (mut wrong, corpus) = (Vec::new(), corpus());
    assert!(corpus.len() > 50, "only {} hostile modules were found", corpus.len());
    for hostile in corpus {
        let handler = hostile.load(Instances::default());
        let (ran, beside) =
            tokio::join!(network.run(&handler, hostile.job()), run(&neighbour, job()));
        assert_eq!(beside.report.outcome, Outcome::Acked, "beside {}", hostile.name);
        wrong.extend(hostile.fault(&ran));
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hostile_module_ends_the_same_with_warm_instances() {
    let warm = Instances { snapshot: false, jobs_each: 1_000 };
    let (mut wrong, network) = (Vec::new(), SilentNetwork::listen().await);
    for hostile in corpus() {
        let handler = hostile.load(warm);
        for _ in 0..2 {
            wrong.extend(hostile.fault(&network.run(&handler, hostile.job()).await));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_failure_class_of_a_guest_has_a_hostile_module() {
    let names: Vec<String> = fs::read_dir(hostile_modules())
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .map(|text| text.lines().next().unwrap_or_default().to_owned())
        .collect();
    for class in [
        FailureClass::Trap,
        FailureClass::Timeout,
        FailureClass::OutOfMemory,
        FailureClass::OutOfFuel,
        FailureClass::StackOverflow,
        FailureClass::Exit,
        FailureClass::BadVerdict,
    ] {
        assert!(names.contains(&format!(";; expect: {class}")), "{class}");
    }
}
