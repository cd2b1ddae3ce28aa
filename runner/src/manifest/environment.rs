//! The flags and environment variables that override or complete a manifest.
//!
//! A flag takes precedence over its `DUEBOX_…` variable, and the variable over the file. Both are captured
//! once, so that a reload sees the same environment as the start.

use std::collections::BTreeMap;
use std::ops::Range;

/// Command-line flags that override the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--redis-url` overrides `redis.url`.
    pub redis_url: Option<String>,
    /// `--log` overrides `runner.log`.
    pub log: Option<String>,
    /// `--log-format` overrides `runner.log_format`.
    pub log_format: Option<String>,
}

/// Flags and environment variables, captured once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    flags: Flags,
    variables: BTreeMap<String, String>,
    /// No handler runs: secrets are not read and directories are not checked.
    runs_no_handlers: bool,
}

/// A string with its origin: a place in the manifest, or the flag or variable that overrides it.
pub(super) struct Setting {
    pub(super) text: String,
    /// The key, flag or variable that set it.
    pub(super) name: &'static str,
    pub(super) at: Option<Range<usize>>,
}

/// Why a string cannot be expanded.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum ExpandError {
    #[error("variable {0} is not set")]
    Unset(String),
    #[error("`${{` without a closing `}}`")]
    Unclosed,
    #[error("`${{{0}}}` is not a valid variable name")]
    Name(String),
    #[error("`$` must be followed by `{{` or `$`")]
    Lone,
}

impl ExpandError {
    /// The remedy.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Unset(name) => format!("set {name}, or write a default: ${{{name}:-default}}"),
            Self::Unclosed => "write ${NAME}".to_owned(),
            Self::Name(_) => "use letters, digits and `_`, such as ${NAME}".to_owned(),
            Self::Lone => "write ${NAME} for a variable, $$ for a dollar sign".to_owned(),
        }
    }
}

impl std::fmt::Debug for Environment {
    /// Omits the variables, because they hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("flags", &self.flags).finish_non_exhaustive()
    }
}

impl Environment {
    /// The flags and the variables of this process. Variables that are not UTF-8 count as unset.
    pub fn of_process(flags: Flags) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { flags, variables, runs_no_handlers: false }
    }

    /// The given flags and variables.
    pub fn new(flags: Flags, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { flags, variables: variables.into_iter().collect(), runs_no_handlers: false }
    }

    /// The same environment for a command that runs no handler. Secrets are not read and directories are
    /// not checked, so that jobs can be pushed from a machine that has neither.
    pub fn without_handlers(self) -> Self {
        Self { runs_no_handlers: true, ..self }
    }

    /// Whether handlers run, so that their secrets and directories must exist.
    pub(super) fn runs_handlers(&self) -> bool {
        !self.runs_no_handlers
    }

    /// The value of a variable.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The flag, or else the variable, that overrides the file. An empty variable counts as unset.
    fn first_set(
        flag: Option<&String>,
        flag_name: &'static str,
        variable: Option<&str>,
        variable_name: &'static str,
    ) -> Option<Setting> {
        let setting = |text: &str, name| Setting { text: text.to_owned(), name, at: None };
        flag.map(|text| setting(text, flag_name)).or_else(|| {
            variable.filter(|text| !text.is_empty()).map(|text| setting(text, variable_name))
        })
    }

    pub(super) fn redis_url(&self) -> Option<Setting> {
        let variable = self.variable("DUEBOX_REDIS_URL");
        Self::first_set(self.flags.redis_url.as_ref(), "--redis-url", variable, "DUEBOX_REDIS_URL")
    }

    pub(super) fn log(&self) -> Option<Setting> {
        Self::first_set(self.flags.log.as_ref(), "--log", self.variable("DUEBOX_LOG"), "DUEBOX_LOG")
    }

    pub(super) fn log_format(&self) -> Option<Setting> {
        let variable = self.variable("DUEBOX_LOG_FORMAT");
        Self::first_set(
            self.flags.log_format.as_ref(),
            "--log-format",
            variable,
            "DUEBOX_LOG_FORMAT",
        )
    }

    /// The variable that overrides `server.listen`. An empty variable counts as unset; it does not disable HTTP.
    pub(super) fn listen(&self) -> Option<Setting> {
        Self::first_set(None, "", self.variable("DUEBOX_LISTEN"), "DUEBOX_LISTEN")
    }

    /// Replaces `${VAR}`, `${VAR:-default}` and `$$` in a string.
    ///
    /// As in a shell, the default applies to a variable that is unset or empty.
    pub(super) fn expand(&self, text: &str) -> Result<String, ExpandError> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            expanded.push_str(&rest[..dollar]);
            rest = &rest[dollar + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                expanded.push('$');
                rest = after;
            } else if let Some(after) = rest.strip_prefix('{') {
                let (inside, after) = after.split_once('}').ok_or(ExpandError::Unclosed)?;
                expanded.push_str(self.value_of(inside)?);
                rest = after;
            } else {
                return Err(ExpandError::Lone);
            }
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    /// The value of the expression between `${` and `}`.
    fn value_of<'a>(&'a self, inside: &'a str) -> Result<&'a str, ExpandError> {
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let is_valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_valid {
            return Err(ExpandError::Name(inside.to_owned()));
        }
        match (self.variable(name), default) {
            (Some(""), Some(default)) | (None, Some(default)) => Ok(default),
            (Some(value), _) => Ok(value),
            (None, None) => Err(ExpandError::Unset(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let pairs = [("HOST", "redis"), ("EMPTY", ""), ("MONEY", "$${HOST}")];
        Environment::new(Flags::default(), pairs.map(|(n, v)| (n.to_owned(), v.to_owned())))
    }

    #[test]
    fn variables_defaults_and_dollars_are_replaced_once() {
        for (text, expanded) in [
            ("plain", "plain"),
            ("${HOST}:1", "redis:1"),
            ("${NONE:-a:-b}/${EMPTY:-x}", "a:-b/x"),
            ("${EMPTY}", ""),
            ("$$HOST $${HOST} $$$$", "$HOST ${HOST} $$"),
            ("${MONEY}", "$${HOST}"),
            ("${NONE:-}", ""),
        ] {
            assert_eq!(environment().expand(text).as_deref(), Ok(expanded), "{text}");
        }
    }

    #[test]
    fn invalid_expressions_are_refused() {
        let environment = environment();
        assert_eq!(environment.expand("${NONE}"), Err(ExpandError::Unset("NONE".into())));
        assert_eq!(environment.expand("${HOST"), Err(ExpandError::Unclosed));
        assert_eq!(environment.expand("${A B}"), Err(ExpandError::Name("A B".into())));
        assert_eq!(environment.expand("${}"), Err(ExpandError::Name(String::new())));
        assert_eq!(environment.expand("$HOST"), Err(ExpandError::Lone));
        assert_eq!(environment.expand("5$"), Err(ExpandError::Lone));
    }

    #[test]
    fn a_flag_overrides_a_variable_and_an_empty_variable_is_unset() {
        let variables = |url: &str| [("DUEBOX_REDIS_URL".to_owned(), url.to_owned())];
        let flags = Flags { redis_url: Some("redis://flag".into()), ..Flags::default() };
        let url = |flags, variable| {
            Environment::new(flags, variables(variable)).redis_url().map(|setting| setting.text)
        };
        assert_eq!(url(flags, "redis://variable").as_deref(), Some("redis://flag"));
        assert_eq!(url(Flags::default(), "redis://variable").as_deref(), Some("redis://variable"));
        assert_eq!(url(Flags::default(), ""), None);
    }
}
