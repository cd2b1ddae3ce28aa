//! What a guest may use, what it is given, and how it comes to a job. The default is the safest: nothing
//! granted, and a fresh instance for every job.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::imports::http::HttpGrant;

/// Tables a module may have.
pub(crate) const TABLES_PER_MODULE: u32 = 4;

/// The limits of one topic's sandbox; the default is that of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, in bytes; a wasm32 memory ends at 4 GiB whatever is said here.
    pub memory: usize,
    /// The longest payload, in bytes. Kept by the runner, see
    /// [`Handler::payload_max`](crate::Handler::payload_max).
    pub payload: usize,
    /// The largest module file, in bytes.
    pub module: usize,
    /// Log text of one job, in bytes; each call of `log`, and each line of output, counts for at least
    /// 1. A job has at most 64 lines and one more for every 16 bytes.
    pub log: usize,
    /// Elements of all tables together.
    pub tables: u32,
    /// Instructions of wasm that one job may run, about; 0 for no limit. The same module burns the same
    /// on the same job, on every machine, if it draws nothing at random; host calls burn nothing.
    pub fuel: u64,
    /// How instances come to its jobs.
    pub instances: Instances,
}

/// How instances come to the jobs of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instances {
    /// Whether `_initialize` runs once, when the module is loaded, and each instance starts from what
    /// memory and globals were then. What the guest drew at random or read from a clock there is the same
    /// for every job.
    pub snapshot: bool,
    /// Jobs that one instance may run, 1 or more, one after the other. With 1 nothing of a job reaches
    /// the next; with more whatever the guest leaves in its memory does.
    pub jobs_each: u32,
}

impl Default for Instances {
    fn default() -> Self {
        Self { snapshot: false, jobs_each: 1 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            payload: 1 << 20,
            module: 16 << 20,
            log: 64 << 10,
            tables: 100_000,
            fuel: 0,
            instances: Instances::default(),
        }
    }
}

/// What one topic's handler may read and reach. The default is nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Values and secrets for `config_read`: strings raw, other types as JSON text.
    pub config: BTreeMap<String, String>,
    /// The environment a WASI module sees.
    pub env: BTreeMap<String, String>,
    /// Topics that `push` reaches: a name, or a prefix of names and a final `*`. With `None` a module
    /// that imports it is refused; with no entry every call is denied.
    pub push: Option<Vec<String>>,
    /// Where `http_send` may go. With `None` a module that imports it is refused.
    pub http: Option<HttpGrant>,
    /// Whether the topic has a store. Without it a module that imports `kv_*` is refused.
    pub kv: bool,
    /// Directories a WASI module sees, to read only: path in the guest to path of the host.
    pub dirs: BTreeMap<String, PathBuf>,
}

impl std::fmt::Debug for Grants {
    /// Names only: values may be secrets.
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
    fn debugging_grants_shows_no_secret() {
        let config = BTreeMap::from([("api_key".to_owned(), "hunter2".to_owned())]);
        let shown = format!("{:?}", Grants { config, ..Grants::default() });
        assert!(shown.contains("api_key") && !shown.contains("hunter2"), "{shown}");
    }
}
