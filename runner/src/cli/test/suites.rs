//! Which cases belong to which topic: those of its files, and its smoke cases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use duebox_job::TopicName;

use crate::cli::support::failure::Failure;
use crate::cli::support::target;
use crate::manifest::{CaseFile, Environment, Manifest, Topic};

/// The most files of a folder.
const FILES_MAX: usize = 1_000;

/// The cases of a topic or pattern.
pub(crate) struct Suite<'m> {
    /// The topic or the pattern.
    pub(crate) name: String,
    pub(crate) topic: &'m Topic,
    pub(crate) files: Vec<CaseFile>,
}

impl Suite<'_> {
    /// Whether there is nothing to run.
    pub(super) fn is_empty(&self) -> bool {
        self.topic.smoke.is_empty() && self.files.is_empty()
    }
}

/// The suites of all topics with a handler, or of one topic.
///
/// # Errors
/// A [`Failure`] of bad input if the topic is unknown, if a file is invalid, or if a file does not say to
/// which of several topics it belongs.
pub(crate) fn find<'m>(
    manifest: &'m Manifest,
    environment: &Environment,
    only: Option<&str>,
) -> Result<Vec<Suite<'m>>, Failure> {
    let named = manifest.topics.iter().map(|(name, topic)| (name.to_string(), topic));
    let patterns = manifest.patterns.iter().map(|(name, topic)| (name.to_string(), topic));
    let all: Vec<(String, &Topic)> =
        named.chain(patterns).filter(|(_, topic)| topic.handler.is_some()).collect();
    if let Some(name) = only
        && !all.iter().any(|(known, _)| known == name)
    {
        return Err(unknown(manifest, name));
    }
    let folders = shared_folders(&all);
    let mut suites = Vec::new();
    for (name, topic) in &all {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let mut suite = Suite { name: name.clone(), topic, files: Vec::new() };
        for path in files_of(topic)? {
            let file = CaseFile::load(&path, environment)?;
            check_topic(&file, &all)?;
            let sharing = path.parent().and_then(|dir| folders.get(dir)).copied().unwrap_or(0);
            match &file.topic {
                Some(named) if named != name => continue,
                None if sharing > 1 && topic.tests.is_empty() => return Err(ambiguous(&file)),
                _ => suite.files.push(file),
            }
        }
        suites.push(suite);
    }
    Ok(suites)
}

fn unknown(manifest: &Manifest, name: &str) -> Failure {
    match TopicName::new(name) {
        Ok(name) if manifest.topic_for(&name).is_some() => Failure::bad_input(
            format!("topic {name} has no entry with a handler of its own"),
            "name the topic or the pattern as the manifest does",
        ),
        Ok(name) => target::unknown_topic(&name, manifest.topics.keys()),
        Err(_) => Failure::bad_input(
            format!("{name:?} is neither a folder nor a topic"),
            "name a folder with a duebox.toml, or a topic of the manifest",
        ),
    }
}

/// How many topics share the folder of cases.
fn shared_folders(topics: &[(String, &Topic)]) -> BTreeMap<PathBuf, usize> {
    let mut folders = BTreeMap::new();
    for (_, topic) in topics {
        if let Some(folder) = folder_of(topic) {
            *folders.entry(folder).or_default() += 1;
        }
    }
    folders
}

/// The folder of a topic's cases: next to its handler, or next to the folder `build` of a compiled one.
fn folder_of(topic: &Topic) -> Option<PathBuf> {
    let folder = topic.handler.as_ref()?.parent().unwrap_or(Path::new(""));
    let is_built = folder.file_name().is_some_and(|name| name == "build");
    let project = folder.parent().filter(|_| is_built).unwrap_or(folder);
    Some(short(&project.join("tests")))
}

/// The path without a leading `./`.
fn short(path: &Path) -> PathBuf {
    path.strip_prefix(".").unwrap_or(path).to_owned()
}

/// The files of a topic's cases.
fn files_of(topic: &Topic) -> Result<Vec<PathBuf>, Failure> {
    if !topic.tests.is_empty() {
        return Ok(topic.tests.iter().map(|path| short(path)).collect());
    }
    let Some(folder) = folder_of(topic).filter(|folder| folder.is_dir()) else {
        return Ok(Vec::new());
    };
    let unreadable = |error: std::io::Error| {
        let message = format!("the folder {} cannot be read: {error}", folder.display());
        Failure::bad_input(message, "make it readable by this user")
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(unreadable)?.take(FILES_MAX) {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn check_topic(file: &CaseFile, topics: &[(String, &Topic)]) -> Result<(), Failure> {
    match &file.topic {
        Some(named) if !topics.iter().any(|(name, _)| name == named) => Err(Failure::bad_input(
            format!("{}: the manifest has no topic {named} with a handler", file.path.display()),
            "correct `topic` of the file",
        )),
        _ => Ok(()),
    }
}

fn ambiguous(file: &CaseFile) -> Failure {
    Failure::bad_input(
        format!("{}: several topics have handlers in this folder", file.path.display()),
        "write topic = \"NAME\" at the top of the file",
    )
}
