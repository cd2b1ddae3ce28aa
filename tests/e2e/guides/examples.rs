//! The HTTP examples: each daemon runs on its own manifest, then the commands of its page run in a second shell.
//! Only addresses differ.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use duebox_harness::{Daemon, TestRedis, duebox_binary};
use tempfile::TempDir;

use crate::support::client::address;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The HTTP address of the daemon in the pages.
const API: &str = "127.0.0.1:7280";
/// The name of the application in the examples.
const APPLICATIONS: [&str; 3] = ["SHOP", "MERCHANT", "COUNTER"];

/// An example in a folder with the layout of the repository, and its daemon. The example lets the daemon start
/// a Redis; the test has its own, which always ends with the test.
struct Example {
    dir: TempDir,
    name: &'static str,
    application: String,
    served: String,
    _daemon: Daemon,
    _redis: TestRedis,
}

impl Example {
    fn start(name: &'static str) -> Self {
        let dir = tempfile::Builder::new().prefix("duebox-example-").tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let folder = at("examples").join(name);
        for folder in [folder.clone(), at("handlers"), at("target/release")] {
            fs::create_dir_all(folder).unwrap();
        }
        for entry in fs::read_dir(Path::new(ROOT).join("examples").join(name)).unwrap() {
            let from = entry.unwrap().path();
            if from.is_file() {
                fs::copy(&from, folder.join(from.file_name().unwrap())).unwrap();
            }
        }
        let built = Path::new(ROOT).join("handlers/build").canonicalize().unwrap();
        symlink(built, at("handlers/build")).unwrap();
        symlink(duebox_binary(), at("target/release/duebox")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let application = format!("http://127.0.0.1:{port}");
        let redis = TestRedis::start();
        let daemon = Daemon::start_with(&folder.join("duebox.toml"), |command| {
            command.current_dir(&folder).env("DUEBOX_REDIS_URL", redis.url());
            command.envs(APPLICATIONS.map(|name| (name, &application)));
        });
        daemon.wait_for_line("ready", |line| line.message() == "ready");
        let served = address(&daemon).to_string();
        Self { dir, name, application, served, _daemon: daemon, _redis: redis }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("examples").join(self.name)
    }

    /// The blocks of its page, of one language.
    fn blocks(&self, language: &str) -> Vec<String> {
        let page = fs::read_to_string(self.folder().join("README.md")).unwrap();
        let fence = format!("```{language}\n");
        let blocks = page.split(&fence).skip(1);
        blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
    }

    /// Runs the commands of its page, except those that start the daemon, in one shell until one
    /// fails; returns their output lines.
    fn play(&self) -> Vec<String> {
        let blocks = self.blocks("sh");
        let (daemon, rest) = blocks.split_first().unwrap();
        assert_eq!(daemon.trim(), "../../target/release/duebox run");
        let commands = rest.concat().replace(API, &self.served);
        let output = Command::new("sh")
            .args(["-e", "-c", &commands])
            .current_dir(self.folder())
            .env("DUEBOX", format!("http://{}", self.served))
            .envs(APPLICATIONS.map(|name| (name, &self.application)))
            .env_remove("DUEBOX_TOKEN")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, failed) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{commands}\n{out}\n{failed}");
        out.lines().map(str::to_owned).collect()
    }
}

/// A line without its leading time: `  2.0 s  …` or `minute 20.2  …`.
fn untimed(line: &str) -> &str {
    let is_time = |c: char| c.is_ascii_digit() || c == '.' || c == ' ';
    let line = line.trim_start_matches("minute").trim_start_matches(is_time);
    line.trim_start_matches("s  ")
}

/// The lines of a page's code blocks of one language.
fn shown(example: &Example, language: &str) -> Vec<String> {
    example.blocks(language).concat().lines().map(str::to_owned).collect()
}

/// A line without the parts that vary between runs.
fn without_token(line: &str) -> String {
    match line.split_once(r#""token":""#) {
        None => line.to_owned(),
        Some((before, rest)) => {
            format!(
                r#"{before}"token":"…{}"#,
                rest.trim_start_matches(|c: char| c.is_ascii_digit())
            )
        }
    }
}

#[test]
fn an_order_is_closed_by_a_callback_in_its_third_attempt() {
    let example = Example::start("order-close");
    let printed = example.play();
    let reported: Vec<&str> = printed.iter().map(|line| untimed(line)).collect();
    let shown = shown(&example, "text");
    assert_eq!(reported, shown.iter().map(|line| untimed(line)).collect::<Vec<_>>());
    assert!(
        reported[3].contains("answers 200") && reported[4] == "the job is done",
        "{reported:#?}"
    );
}

#[test]
fn the_command_protocol_works_as_documented() {
    let example = Example::start("add-pop-finish");
    let printed: Vec<String> = example.play().iter().map(|line| without_token(line)).collect();
    let shown: Vec<String> =
        shown(&example, "json").iter().map(|line| without_token(line)).collect();
    assert_eq!(printed, shown);
    assert!(printed.iter().any(|line| line.contains("too late")), "{printed:#?}");
}

#[test]
fn a_batch_contains_jobs_due_three_seconds_ago() {
    let example = Example::start("batch-pull");
    let printed = example.play();
    assert_eq!(printed[0], "9 clicks are pushed");
    let (last, batches) = printed[1..].split_last().unwrap();
    let mut come = Vec::new();
    for batch in batches {
        let (time, ids) = batch.split_once(" jobs: ").unwrap();
        let seconds: f64 = time.split_whitespace().next().unwrap().parse().unwrap();
        for id in ids.split(", ") {
            let number: u32 = id.strip_prefix("click-").unwrap().parse().unwrap();
            // It is due one second after the earlier three; the output has one digit.
            assert!(seconds >= f64::from(number / 3) + 3.0 - 0.1, "{id} came early: {batch}");
            come.push(number);
        }
    }
    come.sort_unstable();
    assert_eq!(come, (0..9).collect::<Vec<_>>());
    assert_eq!(last, example.blocks("json")[0].trim());
}

#[test]
fn a_merchant_is_notified_on_schedule() {
    let example = Example::start("notify");
    let printed = example.play();
    let (head, rows) = printed.split_first().unwrap();
    assert_eq!(head, "attempt  planned     came        answer");
    let shown = shown(&example, "text");
    let (last, rows) = rows.split_last().unwrap();
    assert_eq!((rows.len(), last.as_str()), (8, "drawn in attempts.svg"));
    for (row, reported) in rows.iter().zip(&shown[1..]) {
        // Columns of a fixed width.
        assert_eq!(row[..19], reported[..19], "another plan than the page's");
        let (planned, came) = (seconds(&row[9..21]), seconds(&row[21..33]));
        assert!(came >= planned, "early: {row}");
        assert_eq!(row[33..], reported[33..]);
    }
    let picture = fs::read_to_string(example.folder().join("attempts.svg")).unwrap();
    let dots = |kind: &str| picture.matches(&format!("circle class=\"{kind}\"")).count();
    // The legend has one of each.
    assert_eq!((dots("planned"), dots("failed"), dots("done")), (9, 8, 2));
}

/// Parses a time span such as `1h 22m`, in seconds.
fn seconds(span: &str) -> u64 {
    let unit = |word: &str| match word.split_at(word.len() - 1) {
        (count, "d") => count.parse::<u64>().unwrap() * 86_400,
        (count, "h") => count.parse::<u64>().unwrap() * 3_600,
        (count, "m") => count.parse::<u64>().unwrap() * 60,
        (count, "s") => count.parse::<u64>().unwrap(),
        _ => panic!("{span:?}"),
    };
    match span.trim() {
        "at once" => 0,
        words => words.split(' ').map(unit).sum(),
    }
}

#[test]
fn guests_are_reminded_unless_they_cancel() {
    let example = Example::start("queue-ticket");
    let printed = example.play();
    let mut reported: Vec<&str> = printed.iter().map(|line| untimed(line)).collect();
    let shown = shown(&example, "text");
    let mut expected: Vec<&str> = shown.iter().map(|line| untimed(line)).collect();
    let at = |what: &str| reported.iter().position(|line| line.starts_with(what)).unwrap();
    assert!(at("a message to ann") < at("ann was here"));
    assert!(at("bob comes at minute 42") < at("a message to bob"));
    // A busy machine may swap jobs that are due close together.
    reported.sort_unstable();
    expected.sort_unstable();
    assert_eq!(reported, expected);
}

#[test]
fn clients_in_three_languages_push_pull_settle_and_command() {
    let example = Example::start("clients");
    let printed = example.play();
    let plain = |line: &str, name: &str| {
        let line = line.replace("python", name).replace("True", "true").replace("False", "false");
        line.replace(": ", ":")
    };
    let shown = shown(&example, "text");
    let expected: Vec<String> = ["python", "node", "php"]
        .iter()
        .flat_map(|name| shown.iter().map(|line| plain(line, name)))
        .collect();
    let printed: Vec<String> = printed.iter().map(|line| plain(line, "python")).collect();
    let expected: Vec<String> = expected.iter().map(|line| plain(line, "python")).collect();
    assert_eq!(printed, expected);
}
