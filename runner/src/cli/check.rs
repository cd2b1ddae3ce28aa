//! `duebox check`: reports all problems of a manifest and its modules at once. Without problems it
//! prints the topics and patterns with their modules, the grants, the schedules and any warnings.

mod grants;
mod paused;

use std::process::ExitCode;

use bytesize::ByteSize;
use duebox_job::format_duration;
use duebox_sandbox::{Digest, Sandbox, SandboxConfig};
use serde::Serialize;

use self::grants::GrantLines;
use super::support::failure::{BAD_INPUT, Failure};
use super::support::{output, target};
use super::{CheckArgs, Common};
use crate::deploy::module_file::{self, ModuleError};
use crate::manifest::{LocatedProblem, Manifest, ManifestError, Soundness, Topic};
use crate::observe::log::colours_wanted;
use crate::schedule::Schedule;

/// The word before a problem, and its colour on a terminal.
const ERROR: (&str, &str) = ("error", "1;31");
const WARNING: (&str, &str) = ("warning", "1;33");

/// The result of a check; the JSON output.
#[derive(Serialize)]
struct CheckReport {
    ok: bool,
    manifest: String,
    problems: Vec<CheckProblem>,
    warnings: Vec<LocatedProblem>,
    topics: Vec<TopicLine>,
    schedules: Vec<ScheduleLine>,
}

/// A problem of the manifest or of a topic's module.
#[derive(Serialize)]
struct CheckProblem {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(flatten)]
    located: LocatedProblem,
}

/// A topic or a pattern whose module is valid.
#[derive(Serialize)]
struct TopicLine {
    topic: String,
    /// `None` for a topic of pull consumers.
    handler: Option<String>,
    digest: Option<String>,
    concurrency: u32,
    ttr_ms: u128,
    max_attempts: u32,
    memory_bytes: usize,
    payload_bytes: usize,
    /// `None` for a topic of pull consumers.
    grants: Option<GrantLines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canary: Option<CanaryLine>,
}

/// A canary whose module is valid.
#[derive(Serialize)]
struct CanaryLine {
    handler: String,
    digest: String,
    percent: f64,
}

/// A schedule of the manifest.
#[derive(Serialize)]
struct ScheduleLine {
    name: String,
    topic: String,
    when: String,
}

pub(super) fn check(common: &Common, args: &CheckArgs) -> Result<ExitCode, Failure> {
    let examined = match Manifest::examine(common.manifest(), &common.environment()) {
        Ok(examined) => examined,
        Err(error) if args.json => {
            output::print_json(&CheckReport::of_problems(&error))?;
            return Ok(ExitCode::from(BAD_INPUT));
        }
        Err(error) => return Err(error.into()),
    };
    let (mut report, error) = match &examined.soundness {
        Soundness::Valid(manifest) => (CheckReport::of_modules(manifest)?, None),
        // The modules can be judged all the same.
        Soundness::Flawed(manifest, error) => {
            let mut report = CheckReport::of_problems(error);
            if let Some(manifest) = manifest {
                report.problems.extend(CheckReport::of_modules(manifest)?.problems);
            }
            (report, Some(error))
        }
    };
    report.warnings = examined.warnings.located();
    let in_file = examined.warnings.render(colours_wanted());
    let mut texts = Vec::from_iter(Some(in_file).filter(|text| !text.is_empty()));
    if let (Soundness::Valid(manifest), true) = (&examined.soundness, args.redis) {
        let paused = target::block_on(paused::schedules(manifest))?;
        texts.extend(paused.iter().map(|warning| describe(WARNING, warning)));
        report.warnings.extend(paused);
    }
    show(report, error, texts, args)
}

/// Prints what was found.
fn show(
    mut report: CheckReport,
    error: Option<&ManifestError>,
    warnings: Vec<String>,
    args: &CheckArgs,
) -> Result<ExitCode, Failure> {
    report.ok = report.problems.is_empty() && (report.warnings.is_empty() || !args.strict);
    if args.json {
        output::print_json(&report)?;
        return Ok(ExitCode::from(if report.ok { 0 } else { BAD_INPUT }));
    }
    if !report.ok {
        // Problems of the manifest are shown with its text.
        let of_modules = report.problems.iter().filter(|problem| problem.topic.is_some());
        let in_file = error.map(|error| error.render(colours_wanted()));
        let all = in_file
            .into_iter()
            .chain(of_modules.map(|it| describe(ERROR, &it.located)))
            .chain(warnings);
        return Err(Failure::problems(all));
    }
    print_tables(&report)?;
    warnings.iter().for_each(|text| output::print_aside(text));
    Ok(ExitCode::SUCCESS)
}

impl CheckReport {
    /// The problems of a manifest.
    fn of_problems(error: &ManifestError) -> Self {
        let manifest = error.path().display().to_string();
        let problem = |located| CheckProblem { file: manifest.clone(), topic: None, located };
        let problems = error.problems().into_iter().map(problem).collect();
        let (warnings, topics, schedules) = (Vec::new(), Vec::new(), Vec::new());
        Self { ok: false, manifest, problems, warnings, topics, schedules }
    }

    /// Loads every module with the limits of its topic.
    fn of_modules(manifest: &Manifest) -> Result<Self, Failure> {
        let sandbox = sandbox_for(manifest)?;
        let (topics, problems) = load_modules(manifest, &sandbox);
        Ok(Self {
            ok: problems.is_empty(),
            manifest: manifest.path.display().to_string(),
            problems,
            warnings: Vec::new(),
            topics,
            schedules: manifest.schedules.iter().map(schedule_line).collect(),
        })
    }
}

/// Loads every module. Returns the valid topics, and a problem for each refused module.
fn load_modules(manifest: &Manifest, sandbox: &Sandbox) -> (Vec<TopicLine>, Vec<CheckProblem>) {
    let (mut topics, mut problems) = (Vec::new(), Vec::new());
    let named = manifest.topics.iter().map(|(name, topic)| (name.to_string(), topic));
    let patterns = manifest.patterns.iter().map(|(name, topic)| (name.to_string(), topic));
    for (name, topic) in named.chain(patterns) {
        match module_file::load(sandbox, &name, topic) {
            Ok(handler) => topics.push(topic_line(name.clone(), topic, Some(handler.digest()))),
            Err(ModuleError::None(_)) => topics.push(topic_line(name.clone(), topic, None)),
            Err(why) => problems.push(module_problem(name.clone(), topic, &why)),
        }
        let Some(canary) = topic.of_canary() else { continue };
        match module_file::load(sandbox, &name, &canary) {
            Ok(handler) => add_canary(&mut topics, &name, topic, handler.digest()),
            Err(why) => problems.push(module_problem(name, &canary, &why)),
        }
    }
    (topics, problems)
}

/// Prints the tables of a valid manifest.
fn print_tables(findings: &CheckReport) -> Result<(), Failure> {
    output::print(&table(&findings.topics))?;
    let granted = findings.topics.iter();
    let granted = granted.filter_map(|line| Some(line.grants.as_ref()?.rows(&line.topic)));
    let granted: Vec<Vec<String>> = granted.flatten().collect();
    if !granted.is_empty() {
        output::print("")?;
        output::print(&output::table(&["topic", "grant", "allows"], &granted))?;
    }
    if !findings.schedules.is_empty() {
        output::print("")?;
        output::print(&schedule_table(&findings.schedules))?;
    }
    Ok(())
}

/// A sandbox that loads modules and runs one smoke case at a time.
fn sandbox_for(manifest: &Manifest) -> Result<Sandbox, Failure> {
    let mut config = SandboxConfig { max_jobs: 1, memory_max: 64 << 10, tables_max: 1 };
    for topic in manifest.all_settings() {
        config.memory_max = config.memory_max.max(topic.limits.memory);
        config.tables_max = config.tables_max.max(topic.limits.tables);
    }
    let program = module_file::program();
    module_file::sandbox(&config, &manifest.runner, program).map_err(Failure::from)
}

/// Adds a valid canary to its topic's entry, if the handler is valid too.
fn add_canary(topics: &mut [TopicLine], name: &str, topic: &Topic, digest: Digest) {
    let line = topics.last_mut().filter(|line| line.topic == name);
    if let (Some(line), Some(canary)) = (line, &topic.canary) {
        line.canary = Some(CanaryLine {
            handler: canary.handler.display().to_string(),
            digest: digest.to_string(),
            percent: canary.percent(),
        });
    }
}

fn module_problem(name: String, topic: &Topic, why: &ModuleError) -> CheckProblem {
    let (message, hint) = (why.problem(), why.remedy().into_owned());
    CheckProblem {
        file: file_of(topic).unwrap_or_default(),
        topic: Some(name),
        located: LocatedProblem { line: None, column: None, message, hint },
    }
}

fn file_of(topic: &Topic) -> Option<String> {
    topic.handler.as_ref().map(|file| file.display().to_string())
}

fn describe((kind, colour): (&str, &str), problem: &LocatedProblem) -> String {
    let LocatedProblem { message, hint, .. } = problem;
    let kind = match colours_wanted() {
        true => format!("\x1b[{colour}m{kind}\x1b[0m"),
        false => kind.to_owned(),
    };
    format!("{kind}: {message}\nhint: {hint}")
}

fn topic_line(name: String, topic: &Topic, digest: Option<Digest>) -> TopicLine {
    TopicLine {
        topic: name,
        handler: file_of(topic),
        digest: digest.map(|digest| digest.to_string()),
        concurrency: topic.concurrency,
        ttr_ms: topic.ttr.as_millis(),
        max_attempts: topic.retries.max_attempts,
        memory_bytes: topic.limits.memory,
        payload_bytes: topic.limits.payload,
        grants: topic.handler.as_ref().map(|_| GrantLines::of(topic)),
        canary: None,
    }
}

fn schedule_line(schedule: &Schedule) -> ScheduleLine {
    ScheduleLine {
        name: schedule.name.clone(),
        topic: schedule.topic.to_string(),
        when: schedule.when.describe(),
    }
}

fn table(topics: &[TopicLine]) -> String {
    let size = |bytes: usize| ByteSize(bytes as u64).display().iec().to_string();
    let duration = |ms: u128| {
        format_duration(std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX)))
    };
    let row = |topic: &TopicLine| {
        let digest = topic.digest.as_deref().unwrap_or("-");
        vec![
            topic.topic.clone(),
            topic.handler.clone().unwrap_or_else(|| "(pull consumers)".to_owned()),
            digest.chars().take(12).collect(),
            topic.concurrency.to_string(),
            duration(topic.ttr_ms),
            topic.max_attempts.to_string(),
            size(topic.memory_bytes),
            size(topic.payload_bytes),
        ]
    };
    let canary_row = |canary: &CanaryLine| {
        let mut row = vec![format!("  canary, {} %", canary.percent), canary.handler.clone()];
        row.push(canary.digest.chars().take(12).collect());
        row.resize(8, "-".to_owned());
        row
    };
    let rows = topics
        .iter()
        .flat_map(|topic| std::iter::once(row(topic)).chain(topic.canary.as_ref().map(canary_row)));
    let rows: Vec<Vec<String>> = rows.collect();
    let header =
        ["topic", "handler", "digest", "concurrency", "ttr", "attempts", "memory", "payload"];
    output::table(&header, &rows)
}

fn schedule_table(schedules: &[ScheduleLine]) -> String {
    let row = |line: &ScheduleLine| vec![line.name.clone(), line.topic.clone(), line.when.clone()];
    let rows: Vec<Vec<String>> = schedules.iter().map(row).collect();
    output::table(&["schedule", "topic", "when"], &rows)
}
