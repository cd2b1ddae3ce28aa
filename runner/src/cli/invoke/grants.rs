//! The grants of a handler under `duebox invoke`: those of a sandbox, given as flags, alone or
//! added to the grants of a topic.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use duebox_job::TopicName;
use duebox_sandbox::{Capability, Grants, HttpGrant, MissingCapabilities, Origin};
use ipnet::IpNet;

use crate::cli::support::failure::Failure;
use crate::cli::value;
use crate::manifest::{Environment, Flags, SecretSource, check_guest_path, check_host_path};
use crate::manifest::{NETWORK_HINT, ORIGIN_HINT, parse_network};

/// The grants of a sandbox as flags.
#[derive(Args)]
pub(super) struct GrantArgs {
    /// A config value for the handler; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair)]
    config: Vec<(String, String)>,
    /// A secret for the handler, from a variable or a file; may be repeated
    ///
    /// The handler reads it like config. It is not printed unless the handler prints it.
    #[arg(long = "secret", value_name = "NAME=env:VAR|file:PATH", allow_hyphen_values = true)]
    secrets: Vec<String>,
    /// An environment variable for a WASI handler; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = value::pair)]
    env: Vec<(String, String)>,
    /// A directory that a WASI handler may read at GUEST; may be repeated
    #[arg(long = "dir", value_name = "GUEST=HOST", value_parser = directory)]
    dirs: Vec<(String, PathBuf)>,
    /// A topic that the handler may push to, or a prefix with a final *; may be repeated
    ///
    /// Without it, a handler that imports `push` is refused, as under a topic without the grant.
    #[arg(long = "allow-push", value_name = "TOPIC|PREFIX*", value_parser = push_pattern)]
    push: Vec<String>,
    /// An origin that the handler may send HTTP requests to, such as https://api.example; may be
    /// repeated
    ///
    /// The requests are real. Without it, a handler that imports `http_send` is refused.
    #[arg(long = "allow-http", value_name = "ORIGIN", value_parser = origin)]
    http: Vec<Origin>,
    /// Private addresses that --allow-http may reach; may be repeated
    ///
    /// An address or a range: 127.0.0.1, 10.0.0.0/8, fd00::/8.
    #[arg(long = "allow-private", value_name = "CIDR", value_parser = network)]
    private: Vec<IpNet>,
    /// Give the handler a key-value store, empty at the start and discarded at the end
    #[arg(long = "allow-kv")]
    kv: bool,
}

impl GrantArgs {
    /// The sources of the secrets. The argument may itself be a secret, so an error does not repeat
    /// it.
    fn secrets(&self) -> Result<Vec<(String, SecretSource)>, Failure> {
        let read = |text: &String| {
            secret(text).ok_or_else(|| {
                let hint = "write NAME=env:VAR or NAME=file:PATH";
                Failure::bad_input("a --secret does not name the source of the secret", hint)
            })
        };
        self.secrets.iter().map(read).collect()
    }

    /// The names of the secrets.
    pub(super) fn secret_names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().filter_map(|text| Some(text.split_once('=')?.0))
    }

    /// Grants the store too.
    pub(super) fn with_kv(self) -> Self {
        Self { kv: true, ..self }
    }

    /// These grants added to those of a topic, with the secrets read. The value of a flag overrides
    /// the topic's value of that name.
    ///
    /// # Errors
    /// A [`Failure`] of bad input if a secret cannot be read, its name is also that of a config
    /// value, or private addresses are allowed without any origin.
    pub(super) fn over(&self, topic: Grants) -> Result<Grants, Failure> {
        let mut config: BTreeMap<String, String> = self.config.iter().cloned().collect();
        let environment = Environment::of_process(Flags::default());
        for (name, source) in self.secrets()? {
            let secret = source.value(&environment).map_err(|(why, remedy)| {
                Failure::bad_input(format!("--secret {name}: {why}"), remedy)
            })?;
            if config.insert(name.clone(), secret).is_some() {
                let message = format!("the name {name} is given twice, with --config or --secret");
                return Err(Failure::bad_input(message, "keep one of the two"));
            }
        }
        let http = self.http_over(topic.http)?;
        let mut push = topic.push;
        if !self.push.is_empty() {
            push.get_or_insert_default().extend(self.push.iter().cloned());
        }
        Ok(Grants {
            config: merged(topic.config, config),
            env: merged(topic.env, self.env.iter().cloned()),
            push,
            http,
            kv: topic.kv || self.kv,
            dirs: merged(topic.dirs, self.dirs.iter().cloned()),
        })
    }

    fn http_over(&self, topic: Option<HttpGrant>) -> Result<Option<HttpGrant>, Failure> {
        let mut http = match topic {
            Some(http) => http,
            None if !self.http.is_empty() => HttpGrant::default(),
            None if self.private.is_empty() => return Ok(None),
            None => {
                let message = "--allow-private has no effect: no HTTP request is granted";
                return Err(Failure::bad_input(message, "add --allow-http ORIGIN"));
            }
        };
        http.allow.extend(self.http.iter().cloned());
        http.private.extend(self.private.iter().copied());
        Ok(Some(http))
    }
}

/// The entries of a table, overridden by those of the flags.
fn merged<T>(
    mut table: BTreeMap<String, T>,
    flags: impl IntoIterator<Item = (String, T)>,
) -> BTreeMap<String, T> {
    table.extend(flags);
    table
}

/// A value of `push` in a sandbox: a topic, or a prefix with a final `*`.
fn push_pattern(text: &str) -> Result<String, String> {
    let prefix = text.strip_suffix('*').filter(|prefix| !prefix.is_empty());
    if text != "*" {
        TopicName::new(prefix.unwrap_or(text)).map_err(|error| error.to_string())?;
    }
    Ok(text.to_owned())
}

fn origin(text: &str) -> Result<Origin, String> {
    let read = text.parse();
    read.map_err(|error: duebox_sandbox::OriginError| format!("{error}; {ORIGIN_HINT}"))
}

fn network(text: &str) -> Result<IpNet, String> {
    parse_network(text).map_err(|why| format!("{why}; {NETWORK_HINT}"))
}

fn directory(text: &str) -> Result<(String, PathBuf), String> {
    let (guest, host) = value::pair(text)?;
    let host = PathBuf::from(host);
    check_guest_path(&guest).map_err(|why| format!("the path {guest:?} in the guest {why}"))?;
    check_host_path(&host)
        .map_err(|error| format!("{} cannot be read as a directory: {error}", host.display()))?;
    Ok((guest, host))
}

fn secret(text: &str) -> Option<(String, SecretSource)> {
    let (name, place) = text.split_once('=').filter(|(name, _)| !name.is_empty())?;
    let source = match place.split_once(':').filter(|(_, place)| !place.is_empty())? {
        ("env", variable) => SecretSource::Variable(variable.to_owned()),
        ("file", path) => SecretSource::File(PathBuf::from(path)),
        _ => return None,
    };
    Some((name.to_owned(), source))
}

/// The flags that grant what a module lacks.
pub(super) fn flags_for(missing: &MissingCapabilities) -> String {
    let flag = |capability: &Capability| match capability {
        Capability::Push => "--allow-push TOPIC",
        Capability::Http => "--allow-http ORIGIN",
        Capability::Kv => "--allow-kv",
    };
    let flags: Vec<&str> = missing.capabilities().iter().map(flag).collect();
    format!(
        "grant it with {}, or use the grants of a topic with --manifest FILE --topic TOPIC; or build the handler without it",
        flags.join(" ")
    )
}
