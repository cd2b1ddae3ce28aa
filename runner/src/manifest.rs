//! The manifest: one TOML file that says where Redis is, how the runner behaves and which module
//! runs which topic.
//!
//! Reading has two steps. First, `section.rs` and `reader.rs` read each key, check its value and
//! record every problem with its place. Only a manifest without problems becomes a [`Manifest`].
//! In that type every default is filled in and every value is in range, so its users check nothing
//! again. A manifest is refused whole, never in part.

mod case;
mod case_file;
mod directory;
mod environment;
mod exchange;
mod failures;
mod json;
mod keys;
mod network;
mod pattern;
mod probe_address;
mod problem;
mod reader;
mod redis;
mod risks;
mod rollout;
mod runner;
mod sandbox;
mod schedules;
mod secret;
mod section;
mod server;
mod topic;
mod topic_table;
mod topics;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use duebox_job::TopicName;
use toml::de::DeTable;

pub use self::case::{Case, Expected, ExpectedFollowUp, ExpectedVerdict};
pub use self::case_file::{CaseFile, load_exchanges};
pub(crate) use self::directory::{check_guest_path, check_host_path};
pub use self::environment::{Environment, Flags};
pub use self::exchange::{Exchange, RecordedResponse, RequestFailure};
pub use self::failures::{BreakerRule, CountedClasses};
pub(crate) use self::keys::nearest;
use self::keys::{DEFAULTS, REDIS, ROOT, RUNNER, SERVER};
pub(crate) use self::network::{NETWORK_HINT, ORIGIN_HINT, parse_network};
pub use self::pattern::{Patterns, TopicPattern};
pub use self::probe_address::probed_address;
pub use self::problem::{LocatedProblem, ManifestError, Warnings};
use self::reader::{Findings, ManifestReader};
pub use self::redis::certificates::Certificates;
pub use self::redis::password::Password;
pub use self::redis::{Redis, RedisUrl, Secret};
pub use self::rollout::{Canary, PARTS, Rollback, percent};
pub use self::runner::{
    CacheFolder, CompileLimits, LogFilterError, LogFormat, Runner, check_log_filter,
};
use self::schedules::read_schedules;
pub use self::secret::SecretSource;
use self::section::Section;
pub use self::server::{Server, TokenFile};
pub use self::topic::{KeyOrder, RecordPolicy, Topic};
use self::topics::Topics;
use crate::regular_file;
use crate::schedule::Schedule;

/// The largest manifest that is read, in bytes.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// A valid manifest: every value is in range and every default is filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file it was read from.
    pub path: PathBuf,
    /// Where the queue lives.
    pub redis: Redis,
    /// How the process behaves.
    pub runner: Runner,
    /// The HTTP listeners and the access to them.
    pub server: Server,
    /// The named topics. A topic without a handler is served to pull consumers.
    pub topics: BTreeMap<TopicName, Topic>,
    /// The patterns for topics that are not named.
    pub patterns: Patterns,
    /// The schedules, in the order of the file. [`topic_for`](Self::topic_for) finds the topic of each.
    pub schedules: Vec<Schedule>,
}

impl Manifest {
    /// The settings of a topic or shard: those of its own table, or of the pattern with the longest prefix.
    pub fn topic_for(&self, name: &TopicName) -> Option<&Topic> {
        topics::find(&self.topics, &self.patterns, name)
    }

    /// The settings of every topic and of every pattern.
    pub fn all_settings(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values().chain(self.patterns.iter().map(|(_, topic)| topic))
    }

    /// Reads and checks the manifest at `path`, with the environment of this process and no flags.
    ///
    /// # Errors
    /// [`ManifestError`] holds every problem of the file, each with its place and remedy.
    pub fn load(path: &Path) -> Result<Self, ManifestError> {
        Self::load_with(path, &Environment::of_process(Flags::default()))
    }

    /// Reads and checks the manifest at `path`. `environment` holds the flags and `DUEBOX_…` variables
    /// that override it, and the values of its `${VAR}`.
    ///
    /// # Errors
    /// [`ManifestError`] holds every problem of the file, each with its place and remedy.
    pub fn load_with(path: &Path, environment: &Environment) -> Result<Self, ManifestError> {
        Self::examine(path, environment)?.valid()
    }

    /// Like [`load_with`](Self::load_with), and also returns what can be said of a manifest with problems.
    ///
    /// # Errors
    /// [`ManifestError`] if the file cannot be read.
    pub fn examine(path: &Path, environment: &Environment) -> Result<Examined, ManifestError> {
        Ok(Self::read(path, read_bounded(path)?, environment))
    }

    /// Checks `text` as if it were the content of the file at `path`.
    ///
    /// # Errors
    /// [`ManifestError`] holds every problem of the text, each with its place and remedy.
    pub fn parse(
        path: &Path,
        text: String,
        environment: &Environment,
    ) -> Result<Self, ManifestError> {
        Self::read(path, text, environment).valid()
    }

    fn read(path: &Path, text: String, environment: &Environment) -> Examined {
        let (document, syntax_errors) = DeTable::parse_recoverable(&text);
        let reader = ManifestReader::new(environment, folder_of(path));
        let manifest = read_document(&reader, document.get_ref(), path);
        let Findings { mut problems, mut warnings, redacted, awaited } = reader.into_findings();
        problem::add_syntax_errors(&mut problems, &syntax_errors, &text);
        drop(document);
        // After a syntax error the values are guesses.
        let manifest = manifest.filter(|_| syntax_errors.is_empty());
        if manifest.is_none() {
            warnings.clear();
        }
        let text = problem::redact(text, &redacted);
        let soundness = match manifest {
            Some(manifest) if problems.is_empty() => Soundness::Valid(Box::new(manifest)),
            flawed => {
                let error = ManifestError::new(path, text.clone(), problems).awaiting(awaited);
                Soundness::Flawed(flawed.map(Box::new), error)
            }
        };
        Examined { soundness, warnings: Warnings::new(path, text, warnings) }
    }
}

/// What a manifest is, and what is wrong with it.
#[derive(Debug)]
pub struct Examined {
    /// The manifest.
    pub soundness: Soundness,
    /// Risky settings of what can be judged.
    pub warnings: Warnings,
}

/// A manifest that was read.
#[derive(Debug)]
pub enum Soundness {
    /// It has no problem.
    Valid(Box<Manifest>),
    /// It has problems. In what could be read, keys with problems are not set; `None` if little of it can be read.
    Flawed(Option<Box<Manifest>>, ManifestError),
}

impl Examined {
    /// The manifest, if it has no problem.
    fn valid(self) -> Result<Manifest, ManifestError> {
        match self.soundness {
            Soundness::Valid(manifest) => Ok(*manifest),
            Soundness::Flawed(_, error) => Err(error),
        }
    }
}

/// The folder that relative paths of the manifest start from.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Reads a text file of at most [`MANIFEST_BYTES_MAX`].
fn read_bounded(path: &Path) -> Result<String, ManifestError> {
    let unreadable = |error: &std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "set --manifest FILE or DUEBOX_MANIFEST; the default is ./duebox.toml"
            }
            _ => "set --manifest FILE or DUEBOX_MANIFEST to a readable file",
        };
        ManifestError::of_file(path, format!("cannot read the manifest: {error}"), hint)
    };
    let bytes = regular_file::read(path, MANIFEST_BYTES_MAX + 1);
    let bytes = bytes.map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(ManifestError::of_file(
            path,
            "the manifest is larger than 1 MiB".to_owned(),
            "check that the path is that of a manifest",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let title = format!("the manifest is not UTF-8 text: invalid byte at offset {at}");
        ManifestError::of_file(path, title, "save the file in UTF-8")
    })
}

/// Reads every section, also after a problem, so that all problems are reported at once.
fn read_document(
    reader: &ManifestReader<'_>,
    table: &DeTable<'_>,
    path: &Path,
) -> Option<Manifest> {
    if table.is_empty() {
        reader.refuse(
            None,
            "the manifest is empty".to_owned(),
            "add at least one table, such as [topics.\"my.topic\"] with a handler",
        );
    }
    let root = Section::open(reader, table, &ROOT);
    let redis = Redis::read(&root.section("redis", &REDIS));
    let runner = Runner::read(&root.section("runner", &RUNNER));
    let server = Server::read(&root.section("server", &SERVER));
    let topics = Topics::read(&root, &root.section("defaults", &DEFAULTS));
    let schedules = read_schedules(&root, &topics);
    let Topics { named, patterns } = topics;
    let manifest = Manifest {
        path: path.to_owned(),
        redis: redis?,
        runner,
        server: server?,
        topics: named,
        patterns,
        schedules,
    };
    risks::warn(&root, &manifest);
    Some(manifest)
}
