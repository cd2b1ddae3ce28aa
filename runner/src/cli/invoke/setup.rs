//! The setup of an invoke: a module with the default limits and no grants, or with everything that
//! a topic of the manifest gives its handler. Flags override both.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duebox_job::TopicName;
use duebox_sandbox::{Grants, Handler, Limits, LoadError, Sandbox, SandboxConfig};

use super::InvokeArgs;
use super::grants::flags_for;
use crate::cli::Common;
use crate::cli::support::failure::Failure;
use crate::deploy::module_file::{self, File, FileError};
use crate::language::Language;
use crate::manifest::{CacheFolder, CompileLimits, Manifest, Runner, Topic};
use crate::observe::redaction::Redaction;

/// Wall clock of an attempt and attempts of a job without a topic.
const TTR: Duration = Duration::from_secs(30);
const MAX_ATTEMPTS: u32 = 8;
/// A limit that counts fuel and stops no job.
const FUEL_COUNTED: Option<NonZeroU64> = NonZeroU64::new(1 << 62);
/// The hint for a refused module; the error states its own remedy.
const LANGUAGES_HINT: &str = "https://github.com/duebox/duebox/blob/main/docs/guide/languages.md lists what a source handler can do";

/// A module and everything it runs with.
pub(super) struct InvokeSetup {
    pub(super) topic: TopicName,
    pub(super) ttr: Duration,
    pub(super) max_attempts: u32,
    module: PathBuf,
    limits: Limits,
    grants: Grants,
    /// The names of the secrets among the config values.
    secrets: BTreeSet<String>,
    /// The manifest's `[runner]`; `None` without a manifest.
    runner: Option<Runner>,
    /// Where compiled modules are kept without a manifest, if the handler is a source: its interpreter takes
    /// seconds to compile.
    cache: Option<CacheFolder>,
}

impl InvokeSetup {
    /// The flags applied to the topic, or to the defaults.
    ///
    /// # Errors
    /// A [`Failure`] of bad input if the manifest is invalid, does not bind the topic, or a flag is
    /// invalid.
    pub(super) fn of(common: &Common, args: &InvokeArgs) -> Result<Self, Failure> {
        let is_bound = args.module.is_none() || common.manifest.is_some();
        let mut setup = match (&args.topic, &args.module) {
            (Some(topic), module) if is_bound => Self::bound(common, topic, module.as_deref())?,
            (topic, Some(module)) => Self::bare(common, topic.clone(), module)?,
            // Clap requires one of the two.
            (_, None) => return Err(Failure::bad_input("no module is given", "name a MODULE")),
        };
        setup.grants = args.grants.over(setup.grants)?;
        setup.secrets.extend(args.grants.secret_names().map(str::to_owned));
        setup.limits.memory = args.memory.unwrap_or(setup.limits.memory);
        setup.limits.fuel = args.fuel.map_or(setup.limits.fuel, NonZeroU64::new);
        if args.trial.deterministic {
            setup.limits.fuel = setup.limits.fuel.or(FUEL_COUNTED);
        }
        setup.ttr = args.ttr.unwrap_or(setup.ttr);
        Ok(setup)
    }

    fn bare(common: &Common, topic: Option<TopicName>, module: &Path) -> Result<Self, Failure> {
        let topic = topic.map_or_else(|| TopicName::new("invoke"), Ok);
        let topic = topic.map_err(|error| Failure::bad_input(error.to_string(), "use --topic"))?;
        Ok(Self {
            topic,
            ttr: TTR,
            max_attempts: MAX_ATTEMPTS,
            module: module.to_owned(),
            limits: Limits::default(),
            grants: Grants::default(),
            secrets: BTreeSet::new(),
            runner: None,
            cache: Language::of(module).and_then(|_| CacheFolder::of_user(&common.environment())),
        })
    }

    fn bound(common: &Common, name: &TopicName, module: Option<&Path>) -> Result<Self, Failure> {
        let manifest = Manifest::load_with(common.manifest(), &common.environment())?;
        let file = manifest.path.display();
        let Some(topic) = manifest.topic_for(name) else {
            let message = format!("{file} has no topic {name}, and no pattern matches it");
            return Err(Failure::bad_input(message, "duebox check lists the topics it has"));
        };
        let Topic { limits, grants, secrets, ttr, max_attempts, handler, .. } = topic.clone();
        let Some(module) = module.map(Path::to_owned).or(handler) else {
            let message = format!("topic {name} of {file} has no handler: pull consumers run it");
            return Err(Failure::bad_input(message, "name a MODULE to run in its place"));
        };
        Ok(Self {
            topic: name.clone(),
            ttr,
            max_attempts,
            module,
            limits,
            grants,
            secrets: secrets.into_keys().collect(),
            runner: Some(manifest.runner),
            cache: None,
        })
    }

    /// The secrets that nothing may show.
    pub(super) fn redaction(&self) -> Redaction {
        let is_secret = |(name, _): &(&String, &String)| self.secrets.contains(*name);
        Redaction::new(self.grants.config.iter().filter(is_secret))
    }

    /// Loads the module.
    ///
    /// # Errors
    /// A [`Failure`] if the module cannot be read or is refused, or if the sandbox does not start.
    pub(super) fn load(&self) -> Result<Handler, Failure> {
        let (limits, file) = (&self.limits, self.module.display());
        let config =
            SandboxConfig { max_jobs: 1, memory_max: limits.memory, tables_max: limits.tables };
        let sandbox = match &self.runner {
            Some(runner) => module_file::sandbox(&config, runner, module_file::program()),
            None => Sandbox::new(&config).map(|mut sandbox| {
                let process =
                    module_file::compiler_process(CompileLimits::default(), module_file::program());
                sandbox.use_compiler_process(process);
                // Without a cache it is only slower.
                let _ = self.cache.as_ref().map(|cache| sandbox.use_cache_dir(&cache.path));
                sandbox
            }),
        };
        let sandbox = sandbox.map_err(Failure::from)?;
        let module = File::read(&sandbox, &self.module, limits).map_err(|error| match error {
            FileError::Io(error) => {
                let message = format!("the module {file} cannot be read: {error}");
                Failure::bad_input(message, "name a .wasm, .wat, .js, .ts or .py file")
            }
            FileError::Source(error) => {
                Failure::bad_input(format!("handler {file}: {error}"), LANGUAGES_HINT)
            }
        })?;
        module.load(&sandbox, limits.clone(), self.grants.clone()).map_err(|error| {
            let hint = match &error {
                LoadError::NotGranted(missing) => flags_for(missing),
                refused => refused.remedy().into_owned(),
            };
            Failure::bad_input(format!("module {file}: {error}"), hint)
        })
    }
}
