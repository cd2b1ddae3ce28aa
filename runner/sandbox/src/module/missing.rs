//! Grants that a module needs and its topic does not give: all of them, so that one correction is enough.

use std::fmt;

/// A grant without which imports of `duebox_v1` are refused at load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Follow-up jobs.
    Push,
    /// Outbound HTTP.
    Http,
    /// The topic's store.
    Kv,
}

/// What a module imports without its topic granting it; one import or more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    imports: Vec<String>,
    grants: Vec<Grant>,
}

impl Missing {
    pub(crate) fn add(&mut self, import: String, grant: Grant) {
        self.imports.push(import);
        if !self.grants.contains(&grant) {
            self.grants.push(grant);
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.imports.is_empty()
    }

    /// The grants that would let the module in, each once.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }
}

impl Grant {
    fn remedy(self) -> &'static str {
        match self {
            Self::Push => "name the topics it may reach under `push`",
            Self::Http => "name the origins it may ask under `http`",
            Self::Kv => "set `kv = true`",
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedies: Vec<&str> = self.grants.iter().map(|grant| grant.remedy()).collect();
        let (names, remedies) = (self.imports.join(", "), remedies.join(" and "));
        match self.imports.len() {
            1 => write!(
                f,
                "the import {names} is not granted; {remedies} in the topic's sandbox, or build the handler without it"
            ),
            _ => write!(
                f,
                "the imports {names} are not granted; {remedies} in the topic's sandbox, or build the handler without them"
            ),
        }
    }
}
