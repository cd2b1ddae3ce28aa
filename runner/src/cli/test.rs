//! `duebox test`: runs the cases next to the handlers, and the smoke cases of the manifest, without Redis.

mod junit;
mod report;
pub(super) mod suites;
mod update;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use duebox_sandbox::{Sandbox, SandboxConfig};

use self::report::{CaseResult, TestReport};
use self::suites::Suite;
use super::Common;
use super::support::failure::{FAILED, Failure};
use super::support::output;
use super::support::target;
use crate::deploy::case_run::{self, CaseJob};
use crate::deploy::{module_file, smoke};
use crate::manifest::{Case, Manifest};

/// The longest run of a case.
const CASE_MAX: Duration = Duration::from_secs(60);

/// Run the test cases of handlers, without Redis
///
/// The cases are in tests/*.toml next to a handler's file or its folder `build`, or in the files that
/// `tests` of its topic names, and in `smoke` of the manifest. Each one has a job, what the handler reads, and
/// what must come of it. Handlers run with the grants and limits of their topic. They have no
/// secrets and no network: a case gives them config values and recorded HTTP responses.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox test
  duebox test order.close
  duebox test services/orders --junit report.xml
  duebox test --update

Exit codes:
  0  all cases passed
  1  some failed
  2  bad input: the manifest, a case or a module is invalid")]
pub(super) struct TestArgs {
    /// A folder with a duebox.toml, or a topic of the manifest; all topics by default
    #[arg(value_name = "DIR|TOPIC")]
    what: Option<String>,
    /// Write the results to FILE in the format of JUnit
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Rewrite what failed cases expect: what came becomes expected
    ///
    /// Only files of cases are changed, not the manifest. A case that expects nothing yet gets
    /// everything that came. Review the changes.
    #[arg(long)]
    update: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn test(common: &Common, args: &TestArgs) -> Result<ExitCode, Failure> {
    let folder = args.what.as_deref().map(Path::new).filter(|path| path.is_dir());
    let path = folder.map_or_else(|| common.manifest().to_owned(), |dir| dir.join("duebox.toml"));
    let environment = common.environment().without_handlers();
    let manifest = Manifest::load_with(&path, &environment)?;
    let topic = args.what.as_deref().filter(|_| folder.is_none());
    let suites = suites::find(&manifest, &environment, topic)?;
    let sandbox = sandbox_for(&manifest)?;
    let mut report = TestReport::default();
    for suite in &suites {
        run_suite(&sandbox, suite, &mut report)?;
    }
    if args.update {
        update::rewrite(&suites, &mut report)?;
    }
    if let Some(path) = &args.junit {
        std::fs::write(path, junit::render(&report)).map_err(|error| {
            let message = format!("{} cannot be written: {error}", path.display());
            Failure::failed(message, "name a file that this user can write")
        })?;
    }
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&report.describe())?,
    }
    Ok(ExitCode::from(if report.has_passed() { 0 } else { FAILED }))
}

fn sandbox_for(manifest: &Manifest) -> Result<Sandbox, Failure> {
    let mut config = SandboxConfig { max_jobs: 1, memory_max: 64 << 10, tables_max: 1 };
    for topic in manifest.all_settings() {
        config.memory_max = config.memory_max.max(topic.limits.memory);
        config.tables_max = config.tables_max.max(topic.limits.tables);
    }
    let program = module_file::program();
    module_file::sandbox(&config, &manifest.runner, program).map_err(Failure::from)
}

/// Runs the cases of a topic, one after the other.
fn run_suite(sandbox: &Sandbox, suite: &Suite<'_>, report: &mut TestReport) -> Result<(), Failure> {
    if suite.is_empty() {
        return Ok(());
    }
    let handler = module_file::load_untested(sandbox, &suite.name, suite.topic);
    let handler = handler
        .map_err(|error| Failure::bad_input(error.problem(), error.remedy().into_owned()))?;
    let name = smoke::topic_of(&suite.name);
    let name = name.map_err(|error| Failure::bad_input(error.to_string(), "rename the pattern"))?;
    let run = |file: Option<&Path>, at: usize, case: &Case| {
        let number = at + 1;
        let job = CaseJob {
            id: format!("case-{number}"),
            topic: &name,
            max_attempts: suite.topic.max_attempts,
            ttr: suite.topic.ttr.min(CASE_MAX),
        };
        let run = target::block_on(async { Ok(case_run::run(&handler, case, &job).await) })?;
        Ok::<_, Failure>(CaseResult::new(suite, file, at, case, run))
    };
    for (at, case) in suite.topic.smoke.iter().enumerate() {
        report.cases.push(run(None, at, case)?);
    }
    for file in &suite.files {
        for (at, case) in file.cases.iter().enumerate() {
            report.cases.push(run(Some(&file.path), at, case)?);
        }
    }
    Ok(())
}
