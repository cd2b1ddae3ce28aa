//! Reads a handler, loads it with everything that it needs, and measures it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::TopicName;
use duebox_sandbox::{
    Capability, Digest, Grants, Handler, HttpGrant, Limits, ModuleOutline, Sandbox, SandboxConfig,
};

use super::cost::{self, Cost};
use super::mend::Refused;
use super::needs::Needs;
use super::{shown, source};
use crate::cli::Common;
use crate::cli::project::HandlerLanguage;
use crate::cli::support::failure::Failure;
use crate::deploy::module_file::{self, File, FileError};
use crate::language::{self, Language};
use crate::manifest::{CacheFolder, CompileLimits, Manifest, Topic};

/// The hint for a refused source; the error states its own remedy.
const LANGUAGES_HINT: &str = "https://github.com/duebox/duebox/blob/main/docs/guide/languages.md lists what a source handler can do";
/// The largest module that is looked at: the largest limit of a topic.
const MODULE_MAX: usize = 256 << 20;
/// How many bytes of a file tell what it is.
const START: usize = 16;

/// What is known of a handler.
pub(crate) struct Inspection {
    pub(super) file: PathBuf,
    pub(super) bytes: usize,
    pub(super) digest: Digest,
    pub(super) language: Option<HandlerLanguage>,
    /// `None` for a source.
    pub(super) outline: Option<ModuleOutline>,
    pub(super) needs: Needs,
    /// What a source imports of `duebox`.
    pub(super) source_imports: Vec<String>,
    /// From the bytes to a loaded handler. It includes the start of the process that compiles.
    pub(super) load: Duration,
    /// `None` if it was not called.
    pub(super) cost: Option<Cost>,
    /// How long the language's compiler ran, if it was built just now.
    pub(crate) compiler: Option<Duration>,
    /// The topics of the manifest that bind it.
    topics: Vec<Binding>,
}

/// A topic that binds the handler.
struct Binding {
    name: String,
    /// The names of its secrets, which are not loaded.
    secrets: Vec<String>,
    grants: Grants,
    limits: Limits,
}

impl Binding {
    /// Whether it sets a name of configuration.
    fn sets(&self, name: &str) -> bool {
        self.grants.config.contains_key(name) || self.secrets.iter().any(|known| known == name)
    }
}

impl Inspection {
    /// The name for the block of the manifest: that of a topic which binds the handler.
    pub(super) fn topic(&self) -> &str {
        self.topics.first().map_or("NAME", |topic| topic.name.as_str())
    }

    /// Problem and remedy of each topic that binds the handler and does not grant what it needs.
    pub(crate) fn refusing_topics(&self) -> Vec<(String, String)> {
        let mut refusals = Vec::new();
        for Binding { name, grants, .. } in &self.topics {
            let missing = self.needs.missing(grants);
            if !missing.is_empty() {
                let names: Vec<&str> = missing.iter().map(|it| super::needs::name(*it)).collect();
                let message = format!(
                    "topic {name} binds this handler and does not grant {}",
                    names.join(", ")
                );
                let block = self.needs.block(name, &missing);
                refusals.push((
                    message,
                    format!("add to duebox.toml, with what it may really reach:\n{block}"),
                ));
            }
        }
        refusals
    }
}

/// What is examined.
pub(crate) struct Subject<'a> {
    /// Looked at for the topics that bind the handler, if it exists.
    pub(crate) manifest: &'a Path,
    /// The handler's file: what topics bind, and errors name.
    pub(crate) file: &'a Path,
    /// The file with its bytes; another one for a module that is not in its place yet.
    pub(crate) content: &'a Path,
    pub(crate) trial: TrialMode,
}

/// What is done with a handler after it is read.
pub(crate) enum TrialMode {
    /// It is loaded, through the cache of the daemon.
    LoadOnly,
    /// It is compiled anew and called with this payload, and the times are measured.
    Measured(Bytes),
}

/// Examines a handler.
///
/// # Errors
/// [`Failure`] if the file cannot be read, or the sandbox refuses it.
pub(crate) fn examine(common: &Common, subject: Subject<'_>) -> Result<Inspection, Failure> {
    let Subject { manifest, file, content, trial } = subject;
    let topics = bindings(common, manifest, file);
    let limits = topics.first().map_or_else(Limits::default, |topic| topic.limits.clone());
    let cached = matches!(trial, TrialMode::LoadOnly) || Language::of(file).is_some();
    let sandbox = sandbox(common, manifest, &limits, cached)?;
    let began = Instant::now();
    let read = File::read(&sandbox, content, &reading_limits(file, &limits))
        .map_err(|error| unreadable(file, error))?;
    let mut look = Look::at(&read, content);
    look.needs.leave_out(|name| topics.iter().all(|topic| topic.sets(name)) && !topics.is_empty());
    let grants = all_grants(topics.first().map(|topic| &topic.grants));
    let handler = read.load(&sandbox, limits, grants).map_err(|error| {
        let (language, outline) = (look.language, look.outline.as_ref());
        let hint = Refused { error: &error, language, outline, start: &look.start }.remedy();
        Failure::bad_input(format!("{} is refused: {error}", shown(file)), hint)
    })?;
    let load = began.elapsed();
    let topic = topics.first().and_then(|topic| TopicName::new(&topic.name).ok());
    let cost = match trial {
        TrialMode::LoadOnly => None,
        TrialMode::Measured(payload) => Some(measured(&handler, topic, payload)?),
    };
    Ok(Inspection {
        compiler: None,
        file: file.to_owned(),
        bytes: look.bytes,
        digest: read.digest(),
        language: look.language,
        needs: look.needs,
        source_imports: look.source_imports,
        outline: look.outline,
        load,
        cost,
        topics,
    })
}

/// The limits for reading a file. A module above its topic's limit is read whole, to say what makes it large.
fn reading_limits(file: &Path, limits: &Limits) -> Limits {
    match Language::of(file) {
        Some(_) => limits.clone(),
        None => Limits { module: MODULE_MAX, ..limits.clone() },
    }
}

fn measured(handler: &Handler, topic: Option<TopicName>, payload: Bytes) -> Result<Cost, Failure> {
    let topic = topic.map_or_else(|| TopicName::new("inspect"), Ok);
    let topic = topic.map_err(|error| Failure::bad_input(error.to_string(), "rename the topic"))?;
    cost::measure(handler, &topic, &payload)
}

/// What the bytes of a handler tell, before they are loaded.
struct Look {
    bytes: usize,
    start: Vec<u8>,
    language: Option<HandlerLanguage>,
    outline: Option<ModuleOutline>,
    needs: Needs,
    source_imports: Vec<String>,
}

impl Look {
    fn at(source: &File, content: &Path) -> Self {
        match source {
            File::Module(bytes) => {
                let outline = ModuleOutline::read(bytes);
                let is_text = !bytes.starts_with(b"\0asm") && outline.is_some();
                let language = outline.as_ref().and_then(language_of);
                Self {
                    bytes: bytes.len(),
                    start: bytes.iter().take(START).copied().collect(),
                    language: language.or(is_text.then_some(HandlerLanguage::Wat)),
                    needs: outline.as_ref().map(Needs::of_module).unwrap_or_default(),
                    outline,
                    source_imports: Vec::new(),
                }
            }
            File::Source(_) => {
                let texts = source::own_texts(content);
                let imports = source::imports_of(&texts);
                let language = match Language::of(content) {
                    Some(Language::Python) => HandlerLanguage::Python,
                    _ => HandlerLanguage::TypeScript,
                };
                let has_fetch = language == HandlerLanguage::TypeScript;
                let needs = Needs::of_source(&texts, &imports, has_fetch);
                Self {
                    bytes: texts.iter().map(String::len).sum(),
                    start: Vec::new(),
                    language: Some(language),
                    outline: None,
                    needs,
                    source_imports: imports,
                }
            }
        }
    }
}

/// The language of a module by what its compiler wrote into it.
fn language_of(outline: &ModuleOutline) -> Option<HandlerLanguage> {
    let mut producers = outline.producers.iter();
    let by_producer = producers.find_map(|producer| match producer.name.as_str() {
        "Rust" | "rustc" => Some(HandlerLanguage::Rust),
        "Go" | "TinyGo" => Some(HandlerLanguage::Go),
        "AssemblyScript" => Some(HandlerLanguage::AssemblyScript),
        "JavaScript" => Some(HandlerLanguage::TypeScript),
        "Python" => Some(HandlerLanguage::Python),
        name if name.starts_with("C11") || name.starts_with("C_plus") || name.contains("clang") => {
            Some(HandlerLanguage::C)
        }
        _ => None,
    });
    // A module without names: the import that every compiler but this one lacks.
    let has_abort = |outline: &ModuleOutline| {
        outline.imports.iter().any(|import| import.module == "env" && import.name == "abort")
    };
    by_producer.or_else(|| has_abort(outline).then_some(HandlerLanguage::AssemblyScript))
}

/// Everything that a handler can need, with the settings of its topic; nothing of it has an effect.
fn all_grants(topic: Option<&Grants>) -> Grants {
    let settings = topic.map(|grants| (grants.config.clone(), grants.env.clone()));
    let (config, env) = settings.unwrap_or_default();
    Grants {
        config,
        env,
        push: Some(vec!["*".to_owned()]),
        http: Some(HttpGrant::default()),
        kv: true,
        ..Grants::default()
    }
}

/// The topics and patterns of a manifest that bind a file. A manifest that is missing or invalid binds nothing.
fn bindings(common: &Common, manifest: &Path, file: &Path) -> Vec<Binding> {
    let environment = common.environment().without_handlers();
    let Ok(manifest) = Manifest::load_with(manifest, &environment) else { return Vec::new() };
    let wanted = place_of(file);
    let is_bound = |topic: &Topic| topic.handler.as_deref().map(place_of).as_ref() == Some(&wanted);
    let named = manifest.topics.iter().map(|(name, topic)| (name.to_string(), topic));
    let patterns = manifest.patterns.iter().map(|(name, topic)| (name.to_string(), topic));
    let bound = named.chain(patterns).filter(|(_, topic)| is_bound(topic));
    let binding = |(name, topic): (String, &Topic)| {
        let (grants, limits) = (topic.grants.clone(), topic.limits.clone());
        Binding { name, secrets: topic.secrets.keys().cloned().collect(), grants, limits }
    };
    bound.map(binding).collect()
}

/// Where a file is or will be, through all links: a handler may be bound before it is built.
pub(crate) fn place_of(file: &Path) -> PathBuf {
    let of_folder = || {
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        Some(folder.unwrap_or(Path::new(".")).canonicalize().ok()?.join(file.file_name()?))
    };
    file.canonicalize().ok().or_else(of_folder).unwrap_or_else(|| file.to_owned())
}

/// A sandbox. Without the cache it compiles modules anew, so that the time is measured. The interpreter of a source
/// always comes from the cache: it takes seconds to compile.
fn sandbox(
    common: &Common,
    manifest: &Path,
    limits: &Limits,
    cached: bool,
) -> Result<Sandbox, Failure> {
    let config =
        SandboxConfig { max_jobs: 1, memory_max: limits.memory, tables_max: limits.tables };
    let environment = common.environment().without_handlers();
    let manifest = Manifest::load_with(manifest, &environment).ok();
    if let Some(manifest) = &manifest {
        language::look_for_engine_in(manifest.runner.languages.as_deref());
    }
    let mut sandbox = Sandbox::new(&config)?;
    let process = module_file::compiler_process(CompileLimits::default(), module_file::program());
    sandbox.use_compiler_process(process);
    let of_manifest = manifest.and_then(|manifest| manifest.runner.cache);
    let cache = of_manifest.or_else(|| CacheFolder::of_user(&common.environment()));
    if let Some(cache) = cache.filter(|_| cached) {
        // Without a cache it is only slower.
        drop(sandbox.use_cache_dir(&cache.path));
    }
    Ok(sandbox)
}

fn unreadable(file: &Path, error: FileError) -> Failure {
    match error {
        FileError::Io(error) => Failure::bad_input(
            format!("the handler {} cannot be read: {error}", shown(file)),
            "name a .wasm, .wat, .js, .ts or .py file; duebox build compiles a project",
        ),
        FileError::Source(error) => {
            Failure::bad_input(format!("{} is refused: {error}", shown(file)), LANGUAGES_HINT)
        }
    }
}

impl Needs {
    /// The capabilities that the grants do not contain.
    pub(super) fn missing(&self, grants: &Grants) -> Vec<Capability> {
        let missing = self.capabilities.iter().filter(|capability| !capability.is_granted(grants));
        missing.copied().collect()
    }
}
