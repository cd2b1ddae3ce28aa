//! Grants that a module needs and its topic does not give: all of them, so that one correction is enough.

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

impl Missing {
    /// The imports that are not granted.
    pub(crate) fn problem(&self) -> String {
        let names = self.imports.join(", ");
        match self.imports.len() {
            1 => format!("the import {names} is not granted"),
            _ => format!("the imports {names} are not granted"),
        }
    }

    /// How to grant them.
    pub(crate) fn remedy(&self) -> String {
        let remedies: Vec<&str> = self.grants.iter().map(|grant| grant.remedy()).collect();
        let them = if self.imports.len() == 1 { "it" } else { "them" };
        let remedies = remedies.join(" and ");
        format!("{remedies} in the topic's sandbox, or build the handler without {them}")
    }
}
