//! `duebox invoke --lines`: one job for each line, one line of output for each job, and a summary.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::process::ExitCode;

use bytes::Bytes;
use duebox_job::JobId;
use serde::Serialize;

use super::Invoker;
use super::run_report::InvokeReport;
use crate::cli::support::failure::{FAILED, Failure};
use crate::cli::support::output;
use crate::cli::support::payload::{Source, too_long};

/// The report on one line; the JSON output.
#[derive(Serialize)]
struct LineReport {
    line: u64,
    #[serde(flatten)]
    report: InvokeReport,
}

/// What came of all lines; the last line of the JSON output.
#[derive(Serialize)]
struct LinesSummary {
    lines: u64,
    /// How many ended how.
    ends: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv: Option<BTreeMap<String, String>>,
}

/// Runs one job for each line.
///
/// # Errors
/// A [`Failure`] if the input cannot be read or a line is too long.
pub(super) async fn run(
    invoker: &Invoker,
    source: Source,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut reader = source.open()?;
    let mut summary = LinesSummary { lines: 0, ends: BTreeMap::new(), time_ms: None, kv: None };
    let (mut all_acked, mut time_ms) = (true, 0.0);
    while let Some(payload) = read_line(reader.as_mut(), &source, invoker, summary.lines + 1)? {
        summary.lines += 1;
        let line = summary.lines;
        let id = JobId::new(format!("{}-{line}", invoker.job.id))
            .map_err(|error| Failure::bad_input(error.to_string(), "choose a shorter --id"))?;
        let report = invoker.run(id, payload).await?;
        all_acked &= report.is_ack();
        time_ms += report.time_ms();
        *summary.ends.entry(report.end()).or_default() += 1;
        match json {
            true => output::print_json(&LineReport { line, report })?,
            false => output::print(&format!("{line:>4}  {}", report.summary()))?,
        }
    }
    summary.time_ms = (!invoker.is_deterministic).then_some(time_ms);
    summary.kv = invoker.trial.shown_kv(&invoker.job.topic);
    match json {
        true => output::print_json(&summary)?,
        false => output::print(&summary.describe())?,
    }
    Ok(ExitCode::from(if all_acked { 0 } else { FAILED }))
}

impl LinesSummary {
    fn describe(&self) -> String {
        let ends: Vec<String> =
            self.ends.iter().map(|(end, jobs)| format!("{jobs} {end}")).collect();
        let mut text = format!("{} jobs: {}", self.lines, ends.join(", "));
        if let Some(time_ms) = self.time_ms {
            text.push_str(&format!(" in {time_ms:.3} ms"));
        }
        for (key, value) in self.kv.iter().flatten() {
            text.push_str(&format!("\nkv       {key} = {value}"));
        }
        text
    }
}

/// The next line without its line feed; `None` at the end. Reads no more than a payload may have.
fn read_line(
    reader: &mut dyn BufRead,
    source: &Source,
    invoker: &Invoker,
    number: u64,
) -> Result<Option<Bytes>, Failure> {
    let max = invoker.handler.payload_max();
    let mut line = Vec::new();
    let read = reader.take(max as u64 + 1).read_until(b'\n', &mut line);
    if read.map_err(|error| source.unreadable(&error))? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > max {
        return Err(too_long(&format!("line {number}"), max));
    }
    Ok(Some(Bytes::from(line)))
}
