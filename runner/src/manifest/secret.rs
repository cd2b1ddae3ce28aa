//! Secrets of a handler: the manifest names an environment variable or a file for each.
//!
//! A value is never shown: not in messages, not in `Debug`, and not in the quoted line if it was written into
//! the manifest itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::environment::Environment;
use super::keys::SECRET;
use super::reader::{ManifestReader, Value};
use super::section::Section;
use crate::regular_file;

/// The largest secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

const FORM_HINT: &str = "write { env = \"NAME\" } or { file = \"path\" }";

/// The source of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Variable(String),
    /// A file of at most 64 KiB. One line feed at its end is ignored.
    File(PathBuf),
}

/// A secret with its value.
#[derive(Clone)]
pub(super) struct ResolvedSecret {
    pub(super) source: SecretSource,
    /// `None` if it was refused, or if the command runs no handler.
    pub(super) value: Option<String>,
}

impl SecretSource {
    /// Reads the current value.
    ///
    /// # Errors
    /// What is wrong, and the remedy; never the value.
    pub(crate) fn value(&self, environment: &Environment) -> Result<String, (String, String)> {
        match self {
            Self::Variable(name) => {
                let remedy = || format!("set {name} in the environment of duebox");
                match environment.variable(name) {
                    None => Err((format!("variable {name} is not set"), remedy())),
                    Some("") => Err((format!("variable {name} is empty"), remedy())),
                    Some(value) => check_size(value.to_owned())
                        .map_err(|why| (format!("variable {name} {why}"), remedy())),
                }
            }
            Self::File(path) => read_file(path).map_err(|why| {
                (why, "write the secret there, readable by the user of duebox".to_owned())
            }),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let named = path.display();
    let unreadable = |error: std::io::Error| format!("{named}: {error}");
    // Up to two bytes of a line ending are removed; a third one shows that the file is too long.
    let bytes = regular_file::read(path, SECRET_BYTES_MAX + 3).map_err(unreadable)?;
    let mut text = String::from_utf8(bytes).map_err(|_| format!("{named} is not UTF-8 text"))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err(format!("{named} is empty"));
    }
    check_size(text).map_err(|why| format!("{named} {why}"))
}

fn check_size(text: String) -> Result<String, String> {
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err("exceeds 64 KiB".to_owned());
    }
    Ok(text)
}

/// Reads one entry of `secrets`; `None` if it was refused.
pub(super) fn read_secret<'t>(
    reader: &'t ManifestReader<'t>,
    name: &Spanned<Cow<'_, str>>,
    value: &'t Value<'t>,
) -> Option<ResolvedSecret> {
    let named = name.get_ref();
    if !value.get_ref().is_table() {
        reader.redact(value.span());
        let title = format!("`{named}` is a plain value; a manifest must not contain secrets");
        reader.refuse(Some(name.span()), title, FORM_HINT);
        return None;
    }
    let others = value.get_ref().as_table().into_iter().flatten();
    for (_, other) in others.filter(|(key, _)| !SECRET.served.contains(&key.get_ref().as_ref())) {
        reader.redact(other.span());
    }
    let section = Section::open(reader, reader.table(named, value, Some(name.span()))?, &SECRET);
    let (source, at) = read_source(&section, name)?;
    if !reader.environment().runs_handlers() {
        return Some(ResolvedSecret { source, value: None });
    }
    match source.value(reader.environment()) {
        Ok(value) => Some(ResolvedSecret { source, value: Some(value) }),
        Err((why, remedy)) => {
            if let SecretSource::File(path) = &source {
                reader.await_change(path);
            }
            reader.refuse(Some(at), format!("`{named}`: {why}"), remedy);
            Some(ResolvedSecret { source, value: None })
        }
    }
}

/// The source of a secret, and its byte range in the manifest.
fn read_source(
    section: &Section<'_>,
    name: &Spanned<Cow<'_, str>>,
) -> Option<(SecretSource, Range<usize>)> {
    match (section.value("env"), section.value("file")) {
        (Some(env), None) => {
            let variable = section.text("env")?;
            if variable.is_empty() || variable.contains(['=', '\0']) {
                let title = format!("`{}`: {variable:?} is not a variable name", name.get_ref());
                section.reader().refuse(Some(env.span()), title, FORM_HINT);
                return None;
            }
            Some((SecretSource::Variable(variable), env.span()))
        }
        (None, Some(file)) => Some((SecretSource::File(section.path("file")?), file.span())),
        _ => {
            let title = format!("`{}` needs either env or file", name.get_ref());
            section.reader().refuse(Some(name.span()), title, FORM_HINT);
            None
        }
    }
}

/// The values of the secrets that could be read.
pub(super) fn values(secrets: &BTreeMap<String, ResolvedSecret>) -> BTreeMap<String, String> {
    let value =
        |(name, secret): (&String, &ResolvedSecret)| Some((name.clone(), secret.value.clone()?));
    secrets.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Flags;

    fn value_of(bytes: &[u8]) -> Result<String, (String, String)> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        SecretSource::File(file.path().to_owned()).value(&Environment::default())
    }

    #[test]
    fn one_final_line_feed_is_ignored() {
        for (bytes, value) in
            [("hunter2", "hunter2"), ("hunter2\n", "hunter2"), ("a\r\n", "a"), ("a\n\n", "a\n")]
        {
            assert_eq!(value_of(bytes.as_bytes()).as_deref(), Ok(value), "{bytes:?}");
        }
        let longest = vec![b'x'; 64 << 10];
        assert_eq!(
            value_of(&[&longest[..], b"\r\n"].concat()).map(|text| text.len()),
            Ok(64 << 10)
        );
    }

    #[test]
    fn errors_do_not_contain_the_secret() {
        for (bytes, words) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"hunter2\xff", "is not UTF-8"),
            (&vec![b'x'; (64 << 10) + 1], "exceeds 64 KiB"),
            (&vec![b'x'; 1 << 20], "exceeds 64 KiB"),
        ] {
            let (why, remedy) = value_of(bytes).unwrap_err();
            assert!(why.contains(words), "{why}");
            assert!(!format!("{why}{remedy}").contains("hunter2"), "{why}");
        }
        let variables = [("FULL", "hunter2"), ("EMPTY", "")].map(|(n, v)| (n.into(), v.into()));
        let environment = Environment::new(Flags::default(), variables);
        let value = |name: &str| SecretSource::Variable(name.to_owned()).value(&environment);
        assert_eq!(value("FULL").as_deref(), Ok("hunter2"));
        assert!(value("EMPTY").unwrap_err().0.contains("EMPTY is empty"));
        assert!(value("NONE").unwrap_err().0.contains("NONE is not set"));
    }
}
