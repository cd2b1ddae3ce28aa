//! The data that a topic gives to its handler, and the capabilities that it grants. The default is nothing.

mod http;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use http::{HttpGrant, Origin, OriginError};

/// What the handler of one topic may read and reach.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Values and secrets for `config_read`. Strings are raw, other types are JSON text.
    pub config: BTreeMap<String, String>,
    /// The environment of a WASI module.
    pub env: BTreeMap<String, String>,
    /// The topics that `push` may reach: names, or prefixes that end with `*`. With `None`, a module that
    /// imports `push` is refused. With an empty list, every call is denied.
    pub push: Option<Vec<String>>,
    /// Where `http_send` may connect. With `None`, a module that imports it is refused.
    pub http: Option<HttpGrant>,
    /// Whether the topic has a key-value store. Without one, a module that imports `kv_*` is refused.
    pub kv: bool,
    /// The directories that a WASI module can read: path in the guest → path on the host.
    pub dirs: BTreeMap<String, PathBuf>,
}

impl std::fmt::Debug for Grants {
    /// Shows the keys of `config` and `env` only: the values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grants")
            .field("config", &self.config.keys())
            .field("env", &self.env.keys())
            .field("push", &self.push)
            .field("http", &self.http)
            .field("kv", &self.kv)
            .field("dirs", &self.dirs)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_no_secret() {
        let config = BTreeMap::from([("api_key".to_owned(), "hunter2".to_owned())]);
        let shown = format!("{:?}", Grants { config, ..Grants::default() });
        assert!(shown.contains("api_key") && !shown.contains("hunter2"), "{shown}");
    }
}
