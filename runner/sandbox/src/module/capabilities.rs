//! The capabilities that a module needs and its topic does not grant. All of them are reported at once, so
//! that one correction is enough.

use std::fmt;

use crate::grants::Grants;
use crate::imports::{abi, http, kv, push};

/// A capability without which some imports of `duebox_v1` are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Follow-up jobs.
    Push,
    /// Outbound HTTP.
    Http,
    /// The topic's key-value store.
    Kv,
}

impl Capability {
    /// The capability that an import needs.
    pub(super) fn of_import(module: &str, name: &str) -> Option<Self> {
        match name {
            _ if module != abi::NAMESPACE => None,
            _ if push::IMPORTS.iter().any(|(known, _)| *known == name) => Some(Self::Push),
            _ if name.starts_with(http::PREFIX) => Some(Self::Http),
            _ if name.starts_with(kv::PREFIX) => Some(Self::Kv),
            _ => None,
        }
    }

    /// The capability that an import needs and the grants do not contain.
    pub(super) fn missing_for(module: &str, name: &str, grants: &Grants) -> Option<Self> {
        Self::of_import(module, name).filter(|capability| !capability.is_granted(grants))
    }

    /// Whether the grants contain it.
    pub fn is_granted(self, grants: &Grants) -> bool {
        match self {
            Self::Push => grants.push.is_some(),
            Self::Http => grants.http.is_some(),
            Self::Kv => grants.kv,
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Push => "name the topics it may reach under `push`",
            Self::Http => "name the origins it may reach under `http`",
            Self::Kv => "set `kv = true`",
        }
    }
}

/// The imports of a module that its topic does not grant; at least one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MissingCapabilities {
    imports: Vec<String>,
    capabilities: Vec<Capability>,
}

impl MissingCapabilities {
    pub(super) fn add(&mut self, import: String, capability: Capability) {
        self.imports.push(import);
        if !self.capabilities.contains(&capability) {
            self.capabilities.push(capability);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.imports.is_empty()
    }

    /// What to do about it: grant each capability, or do without all of them.
    pub fn remedy(&self) -> String {
        let remedies: Vec<&str> = self.capabilities.iter().map(|it| it.remedy()).collect();
        let them = if self.imports.len() == 1 { "it" } else { "them" };
        format!(
            "{} in the topic's sandbox, or build the handler without {them}",
            remedies.join(" and ")
        )
    }

    /// The capabilities that the module needs, each once.
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }
}

impl fmt::Display for MissingCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.imports.join(", ");
        match self.imports.len() {
            1 => write!(f, "the import {names} is not granted"),
            _ => write!(f, "the imports {names} are not granted"),
        }
    }
}
