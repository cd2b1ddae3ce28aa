//! The Redis of the demo: the daemon's own, or the one that another `redis.url` in the manifest names.

use std::path::{Path, PathBuf};

use anyhow::Context;

/// The Redis that the manifest names.
pub(crate) enum QueueRedis {
    /// The daemon starts it, and it listens at this socket.
    Managed(PathBuf),
    /// It has this address.
    At(String),
}

impl QueueRedis {
    /// Reads it from the manifest; `data` is the folder of a managed Redis.
    pub(crate) fn of(manifest: &Path, data: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(manifest);
        let text = text.with_context(|| format!("cannot read {}", manifest.display()))?;
        let parsed: toml::Table =
            text.parse().with_context(|| format!("{} is not TOML", manifest.display()))?;
        let url = parsed.get("redis").and_then(|redis| redis.get("url")?.as_str());
        Ok(match url {
            None | Some("managed") => Self::Managed(data.join("redis.sock")),
            Some(url) => Self::At(url.to_owned()),
        })
    }

    /// What is printed of it.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Managed(_) => "which starts its own Redis".to_owned(),
            Self::At(url) => format!("which uses {url}"),
        }
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Managed(socket) => format!("redis+unix://{}", socket.display()),
            Self::At(url) => url.clone(),
        }
    }

    /// Whether a connection may be tried.
    pub(crate) fn may_listen(&self) -> bool {
        match self {
            Self::Managed(socket) => socket.exists(),
            Self::At(_) => true,
        }
    }
}
