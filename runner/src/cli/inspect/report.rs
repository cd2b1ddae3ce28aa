//! An inspection as text and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use bytesize::ByteSize;
use duebox_sandbox::ModuleOutline;
use serde::Serialize;

use super::Inspection;
use super::needs;
use super::shown;
use crate::cli::project::HandlerLanguage;
use crate::cli::support::output;

/// An instance that takes longer to create is worth a snapshot.
const SLOW_START: Duration = Duration::from_micros(50);
/// How much of a verdict is shown, in characters.
const VERDICT_MAX: usize = 120;

/// The JSON output.
#[derive(Serialize)]
pub(super) struct InspectReport {
    file: String,
    digest: String,
    bytes: usize,
    language: Option<&'static str>,
    producers: Vec<String>,
    exports: Vec<Export>,
    imports: Vec<Import>,
    needs: Vec<&'static str>,
    origins: Vec<String>,
    /// A block of the manifest; `None` if the default sandbox is enough.
    sandbox: Option<String>,
    sections: Vec<Section>,
    /// Of the language's compiler; only in the report of a build.
    #[serde(skip_serializing_if = "Option::is_none")]
    compiler_ms: Option<f64>,
    load_ms: f64,
    instantiate_us: Option<f64>,
    call_us: Option<f64>,
    calls: usize,
    memory_peak_bytes: Option<usize>,
    verdict: Option<String>,
    notes: Vec<String>,
    /// Of topics of the manifest that bind the handler and refuse it.
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Export {
    name: String,
    #[serde(rename = "type")]
    ty: String,
}

#[derive(Serialize)]
struct Import {
    module: String,
    name: String,
    #[serde(rename = "type")]
    ty: String,
}

#[derive(Serialize)]
struct Section {
    name: String,
    bytes: usize,
}

#[derive(Serialize)]
struct Problem {
    message: String,
    hint: String,
}

impl InspectReport {
    pub(super) fn of(inspection: &Inspection) -> Self {
        let outline = inspection.outline.clone().unwrap_or_default();
        let export = |it: &duebox_sandbox::OutlineExport| Export {
            name: it.name.clone(),
            ty: it.ty.clone(),
        };
        let import = |it: &duebox_sandbox::OutlineImport| Import {
            module: it.module.clone(),
            name: it.name.clone(),
            ty: it.ty.clone(),
        };
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (needs, cost) = (&inspection.needs, inspection.cost.as_ref());
        Self {
            file: shown(&inspection.file),
            digest: inspection.digest.to_string(),
            bytes: inspection.bytes,
            language: inspection.language.map(HandlerLanguage::name),
            producers: producers(&outline),
            exports: outline.exports.iter().map(export).collect(),
            imports: outline.imports.iter().map(import).chain(of_source(inspection)).collect(),
            needs: needs.capabilities.iter().map(|it| needs::name(*it)).collect(),
            origins: needs.origins.clone(),
            sandbox: (!needs.is_empty()).then(|| needs.whole_block(inspection.topic())),
            sections: sections(&outline)
                .into_iter()
                .map(|(name, bytes)| Section { name, bytes })
                .collect(),
            compiler_ms: inspection.compiler.map(|time| time.as_secs_f64() * 1e3),
            load_ms: inspection.load.as_secs_f64() * 1e3,
            instantiate_us: cost.and_then(|cost| cost.instantiate).map(micros),
            call_us: cost.map(|cost| micros(cost.call)),
            calls: cost.map_or(0, |cost| cost.calls),
            memory_peak_bytes: cost.map(|cost| cost.memory_peak),
            verdict: cost.map(|cost| cost.verdict.clone()),
            notes: notes(inspection),
            problems: inspection
                .refusing_topics()
                .into_iter()
                .map(|(message, hint)| Problem { message, hint })
                .collect(),
        }
    }
}

/// What a source imports of `duebox`; its names have no type.
fn of_source(inspection: &Inspection) -> impl Iterator<Item = Import> {
    inspection.source_imports.iter().map(|name| Import {
        module: "duebox".to_owned(),
        name: name.clone(),
        ty: String::new(),
    })
}

/// The report for people.
pub(super) fn describe(inspection: &Inspection) -> String {
    let mut parts = vec![summary(inspection)];
    if let Some(outline) = &inspection.outline {
        let total = inspection.bytes.max(1);
        let row = |(name, bytes): (String, usize)| {
            let share = format!("{} %", bytes * 100 / total);
            vec![name, bytes.to_string(), share]
        };
        let rows: Vec<Vec<String>> = sections(outline).into_iter().map(row).collect();
        parts.push(output::table(&["section", "bytes", "share"], &rows));
    }
    let (needs, topic) = (&inspection.needs, inspection.topic());
    parts.push(match needs.is_empty() {
        true => "It needs nothing beyond the default sandbox.".to_owned(),
        false => format!(
            "What it needs beyond the default sandbox, for duebox.toml:\n\n{}",
            needs.whole_block(topic)
        ),
    });
    parts.extend(notes(inspection).into_iter().map(|note| format!("note: {note}")));
    parts.join("\n\n")
}

fn summary(inspection: &Inspection) -> String {
    let mut fields = vec![("file", shown(&inspection.file))];
    if let Some(language) = inspection.language {
        let producers = inspection.outline.as_ref().map(producers).unwrap_or_default();
        let by = if producers.is_empty() {
            String::new()
        } else {
            format!(" ({})", producers.join(", "))
        };
        fields.push(("language", format!("{}{by}", language.name())));
    }
    fields.push(("digest", inspection.digest.to_string()));
    fields.push(("size", size(inspection.bytes)));
    if let Some(outline) = &inspection.outline {
        fields.push(("exports", exports(outline)));
        fields.push(("imports", imports(outline)));
    }
    if inspection.outline.is_none() {
        let names = inspection.source_imports.join(", ");
        let names = if names.is_empty() { "nothing".to_owned() } else { names };
        fields.push(("imports", format!("duebox: {names}")));
    }
    let Some(cost) = &inspection.cost else { return output::fields(&fields) };
    fields.push(("load", format!("{}, once for each version", time(inspection.load))));
    if let Some(instantiate) = cost.instantiate {
        fields.push(("instance", format!("{}, for each job", time(instantiate))));
    }
    let verdict: String = cost.verdict.chars().take(VERDICT_MAX).collect();
    fields.push((
        "call",
        format!("{}, for each job like the tried one, which ended with {verdict}", time(cost.call)),
    ));
    fields.push(("memory", size(cost.memory_peak)));
    output::fields(&fields)
}

/// Remarks that need no action, or one that is not an error.
fn notes(inspection: &Inspection) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(outline) = &inspection.outline else { return notes };
    let imports = |module: &str, name: &str| {
        outline.imports.iter().any(|import| import.module == module && import.name == name)
    };
    if imports("env", "abort") {
        notes.push(
            "it imports env.abort of AssemblyScript, which Duebox provides: a throw ends the attempt as a trap with its \
             message. The option --use abort= is not needed, and without it the message is kept."
                .to_owned(),
        );
    }
    if imports("wasi_snapshot_preview1", "path_open")
        && inspection.language != Some(HandlerLanguage::Go)
    {
        notes.push("it can open files: dirs = { \"/data\" = \"./data\" } in its sandbox grants a folder to read.".to_owned());
    }
    if outline.debug_bytes() > 0 {
        let bytes = size(outline.debug_bytes());
        notes.push(format!("{bytes} of it are debug information, which `duebox build` removes; the names of functions stay."));
    }
    let has_initialize = outline.exports.iter().any(|export| export.name == "_initialize");
    let instantiate = inspection.cost.as_ref().and_then(|cost| cost.instantiate);
    if has_initialize && instantiate.is_some_and(|time| time > SLOW_START) {
        notes.push(
            "its runtime starts anew for each job; snapshot = true in its topic starts jobs from the state after that."
                .to_owned(),
        );
    }
    notes
}

/// Sections by size, with those of one name together.
fn sections(outline: &ModuleOutline) -> Vec<(String, usize)> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for section in &outline.sections {
        *sizes.entry(&section.name).or_default() += section.bytes;
    }
    let mut sizes: Vec<(String, usize)> =
        sizes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    sizes
}

fn producers(outline: &ModuleOutline) -> Vec<String> {
    let tools = outline.producers.iter().filter(|producer| producer.field != "language");
    tools
        .map(|producer| format!("{} {}", producer.name, producer.version).trim_end().to_owned())
        .collect()
}

fn exports(outline: &ModuleOutline) -> String {
    let text = |export: &duebox_sandbox::OutlineExport| match export.ty.starts_with('(') {
        true => format!("{}{}", export.name, export.ty),
        false => export.name.clone(),
    };
    outline.exports.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The imports, by their namespaces.
fn imports(outline: &ModuleOutline) -> String {
    let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for import in &outline.imports {
        modules.entry(&import.module).or_default().push(&import.name);
    }
    let line = |(module, names): (&str, Vec<&str>)| format!("{module}: {}", names.join(", "));
    let lines: Vec<String> = modules.into_iter().map(line).collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join("\n") }
}

fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).display().iec().to_string()
}

/// A time in its best unit.
fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        0.0..1_000.0 => format!("{micros:.1} µs"),
        1_000.0..1_000_000.0 => format!("{:.1} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}
