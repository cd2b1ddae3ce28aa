//! Puts a script's text together: the keys that its header names, the shared constants that it uses, the
//! files that it includes, and its own lines.
//!
//! A line `-- @include permits` includes `lua/include/permits.lua` in its place. Includes may include others. Each
//! comes once, where it is first named. A script that often ends early names the others behind that point, because
//! Redis defines each function again in every call.

use crate::wire::constants;

const INCLUDE: &str = "-- @include ";

macro_rules! includes {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../lua/include/", $name, ".lua")))),*]
    };
}

/// The files that scripts may include, by name.
static INCLUDES: [(&str, &str); 25] = includes![
    "bury",
    "calls",
    "columns",
    "doctor",
    "doctor_job",
    "due",
    "enter_stage",
    "expiry",
    "failures",
    "keep",
    "kv",
    "limits",
    "now",
    "number",
    "option",
    "order",
    "permits",
    "permits_if_any",
    "rank",
    "ready",
    "scores",
    "tokens",
    "types",
    "waiting",
    "wake",
];

/// A script that is ready to be loaded.
pub(super) struct Source {
    /// The whole text.
    pub(super) text: String,
    /// The names of the keys it takes, in their order: what its header names after `-- KEYS`.
    pub(super) keys: Vec<&'static str>,
}

/// A script includes a file that does not exist.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown include {0}")]
pub(super) struct UnknownInclude(String);

/// Puts the text of a script together.
pub(super) fn assemble(body: &'static str) -> Result<Source, UnknownInclude> {
    let (mut parts, mut names) = (String::new(), Vec::new());
    add_with_includes(body, &mut names, &mut parts)?;
    let header = body.lines().find_map(|line| line.strip_prefix("-- KEYS"));
    let keys: Vec<_> = header.unwrap_or_default().split_whitespace().collect();
    let text = format!("{}{}{parts}", key_locals(&keys), constant_locals(&parts));
    Ok(Source { text, keys })
}

/// Adds a text to `parts`, with each file that it includes in the place of the first line that names it. `names` are
/// the files that were included so far.
fn add_with_includes<'t>(
    text: &'t str,
    names: &mut Vec<&'t str>,
    parts: &mut String,
) -> Result<(), UnknownInclude> {
    for line in text.lines() {
        let Some(name) = line.strip_prefix(INCLUDE) else {
            parts.push_str(line);
            parts.push('\n');
            continue;
        };
        if !names.contains(&name) {
            names.push(name);
            let part = find(name).ok_or_else(|| UnknownInclude(name.to_owned()))?;
            add_with_includes(part, names, parts)?;
        }
    }
    Ok(())
}

/// What the lines of a text include, without what the included files include themselves.
#[cfg(test)]
fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix(INCLUDE))
}

fn find(name: &str) -> Option<&'static str> {
    INCLUDES.iter().find(|(found, _)| *found == name).map(|(_, text)| *text)
}

/// The line that gives a script its keys as locals: `dead:info` becomes `DEAD_INFO`.
fn key_locals(keys: &[&str]) -> String {
    let names: Vec<String> = keys.iter().map(|key| key_local(key)).collect();
    format!("local {} = unpack(KEYS)\n", names.join(", "))
}

fn key_local(key: &str) -> String {
    key.replace(':', "_").to_uppercase()
}

/// The line that gives a script the shared constants it names.
fn constant_locals(text: &str) -> String {
    let named = |(name, _): &&(&str, u64)| words(text).any(|word| word == *name);
    let used: Vec<_> = constants::LUA.iter().filter(named).collect();
    if used.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = used.iter().map(|(name, _)| *name).collect();
    let values: Vec<String> = used.iter().map(|(_, value)| value.to_string()).collect();
    format!("local {} = {}\n", names.join(", "), values.join(", "))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::wire::keys::ShardKeys;
    use crate::wire::script::BODIES;

    /// The lines of a Lua file without its comments.
    fn code(text: &str) -> String {
        let line = |line: &str| line.split("--").next().unwrap_or_default().to_owned();
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }

    /// What an included file defines for those that include it: its locals at the top level.
    fn definitions(text: &str) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("local ") else { continue };
            let rest = rest.strip_prefix("function ").unwrap_or(rest);
            let list = rest.split(['=', '(']).next().unwrap_or_default();
            names.extend(list.split(',').map(str::trim));
        }
        names
    }

    #[test]
    fn every_include_is_known_and_used() {
        let files = BODIES.iter().copied().chain(INCLUDES.iter().copied());
        for (file, text) in files {
            let code = code(text);
            let used: BTreeSet<&str> = words(&code).collect();
            let mut seen = BTreeSet::new();
            for name in included(text) {
                assert!(seen.insert(name), "{file} includes {name} twice");
                let part = find(name).unwrap_or_else(|| panic!("{file}: unknown include {name}"));
                let defined = definitions(part);
                // One without a definition completes the file that it includes itself.
                let completed = included(part).flat_map(|name| definitions(find(name).unwrap()));
                let defined: BTreeSet<&str> = match defined.is_empty() {
                    true => completed.collect(),
                    false => defined,
                };
                assert!(
                    defined.iter().any(|name| used.contains(name)),
                    "{file} includes {name} and uses nothing of it"
                );
            }
        }
    }

    #[test]
    fn every_file_is_included_by_a_script() {
        let mut reached = Vec::new();
        for (file, body) in BODIES {
            add_with_includes(body, &mut reached, &mut String::new())
                .unwrap_or_else(|error| panic!("{file}: {error}"));
        }
        for (name, _) in &INCLUDES {
            assert!(reached.contains(name), "no script includes {name}");
        }
    }

    #[test]
    fn includes_come_once_where_they_are_first_named() {
        let mut text = String::new();
        let body = "-- first\n-- @include permits\n-- second\n-- @include now\n-- @include bury\n";
        add_with_includes(body, &mut Vec::new(), &mut text).unwrap();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}"));
        assert_eq!(text.matches("local function whole").count(), 1);
        let order = [
            "-- first",
            "local function whole",
            "local limits =",
            "local has_permits",
            "-- second",
            "local function bury",
        ];
        assert!(order.is_sorted_by_key(|part| at(part)), "{text}");
    }

    #[test]
    fn an_unknown_include_is_an_error() {
        let unknown = assemble("-- KEYS  jobs\n-- @include nothing\n").err();
        assert_eq!(unknown, Some(UnknownInclude("nothing".to_owned())));
    }

    /// A script gets the keys that its header names: they must be keys, and all be used. A caller may add a
    /// key of its own, which is the last.
    #[test]
    fn headers_name_the_keys_that_scripts_use() {
        for (file, body) in BODIES {
            let Source { text, keys } = assemble(body).unwrap();
            let others = text.replace("KEYS[#KEYS]", "");
            assert!(!keys.is_empty() && !others.contains("KEYS["), "{file}");
            for key in keys {
                assert!(ShardKeys::NAMES.contains(&key), "{file}: {key}");
                let local = key_local(key);
                let uses = words(&text).filter(|word| *word == local).count();
                assert!(uses > 1, "{file}: {local} is declared and not used");
            }
        }
    }

    /// A shared constant has one source: no script defines one of its own under the same name.
    #[test]
    fn no_script_defines_a_shared_constant() {
        let files = BODIES.iter().copied().chain(INCLUDES.iter().copied());
        for (file, text) in files {
            for (name, _) in &constants::LUA {
                assert!(!definitions(text).contains(name), "{file} defines {name}");
            }
        }
    }

    #[test]
    fn keys_and_constants_become_locals() {
        assert_eq!(key_locals(&["jobs", "dead:info"]), "local JOBS, DEAD_INFO = unpack(KEYS)\n");
        assert_eq!(constant_locals("a + CRASH"), "local CRASH = 1000000\n");
        assert_eq!(constant_locals("CRASHED"), "");
    }
}
