//! What a handler bound as source imports of `duebox`, as far as the text of its own files shows. Nothing is run, and
//! packages that it imports are left out: they reach the host only through what the handler gives them.

use std::path::{Path, PathBuf};

use crate::language::{self, Language};
use crate::regular_file;

/// The most files, and the most bytes of one, that are looked at.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 1 << 20;
/// The most names.
const NAMES_MAX: usize = 100;
/// Folders of packages.
const PACKAGES: [&str; 4] = ["node_modules", "site-packages", "dist-packages", ".venv"];

/// The texts of a handler's own files: its file, and those that it imports. It must have been read before.
pub(super) fn own_texts(file: &Path) -> Vec<String> {
    let imported = language::files(file);
    let is_own = |path: &PathBuf| {
        let is_package = path.iter().any(|part| PACKAGES.iter().any(|name| part == *name));
        Language::of(path).is_some() && !is_package
    };
    let own = imported.into_keys().filter(is_own).take(FILES_MAX);
    own.filter_map(|path| text_of(&path)).collect()
}

/// The text of a file; `None` if it is not there.
fn text_of(path: &Path) -> Option<String> {
    let bytes = regular_file::read(path, BYTES_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The names that texts import of `duebox`, sorted.
pub(super) fn imports_of(texts: &[String]) -> Vec<String> {
    let mut names: Vec<String> =
        texts.iter().flat_map(|text| [javascript(text), python(text)].concat()).collect();
    names.sort();
    names.dedup();
    names.truncate(NAMES_MAX);
    names
}

/// From `import { a, b as c } from "duebox"`, `import * as d from "duebox"` and `const { a } = require("duebox")`.
fn javascript(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for quoted in ["\"duebox\"", "'duebox'"] {
        for (at, _) in text.match_indices(quoted) {
            let Some(clause) = clause_before(&text[..at]) else { continue };
            match clause.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
                Some((list, _)) => names.extend(list.split(',').filter_map(imported)),
                None => {
                    let alias = clause.trim_start_matches(['*', ' ']).trim_start_matches("as ");
                    names.extend(members(text, alias.trim_end_matches(['=', ' '])));
                }
            }
        }
    }
    names
}

/// What stands between the keyword and the name of the module; `None` if nothing but types is imported.
fn clause_before(text: &str) -> Option<&str> {
    let before = text.trim_end();
    let (clause, keywords) = match before.strip_suffix("from") {
        Some(clause) => (clause, &["import", "export"][..]),
        None => (before.strip_suffix("require(")?, &["const", "let", "var"][..]),
    };
    let starts = keywords.iter().filter_map(|word| Some(clause.rfind(word)? + word.len()));
    let clause = clause[starts.max()?..].trim();
    (!clause.starts_with("type ")).then_some(clause)
}

/// The name in one part of a list; `None` for a type.
fn imported(part: &str) -> Option<String> {
    let name = part.trim().split([' ', ':', '\n']).next().unwrap_or_default();
    (name != "type" && is_name(name)).then(|| name.to_owned())
}

/// From `from duebox import a, b as c` and `import duebox as d`.
fn python(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, line) in lines_at(text) {
        if line.trim_start().starts_with("from duebox import ") {
            let list = text[at..].split_once(" import ").map_or("", |(_, rest)| rest);
            let list = match list.trim_start().strip_prefix('(') {
                Some(rest) => rest.split(')').next(),
                None => list.lines().next(),
            };
            names.extend(list.unwrap_or_default().split(',').filter_map(imported));
        } else if let Some(rest) = line.trim_start().strip_prefix("import duebox") {
            let alias = rest.trim().strip_prefix("as ").unwrap_or("duebox");
            names.extend(members(text, alias.trim()));
        }
    }
    names
}

/// Each line with its place.
fn lines_at(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        at += line.len();
        (at - line.len(), line)
    })
}

/// The names that follow `alias.`.
fn members(text: &str, alias: &str) -> Vec<String> {
    if !is_name(alias) {
        return Vec::new();
    }
    let start = format!("{alias}.");
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '"' | '\'');
    let own = text.match_indices(&start).filter(|(at, _)| !text[..*at].ends_with(is_part));
    let name = |rest: &str| -> String {
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let names = own.map(|(at, _)| name(&text[at + start.len()..]));
    names.filter(|name| is_name(name)).collect()
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '$'))
        && letters.all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '$'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        imports_of(&[text.to_owned()])
    }

    #[test]
    fn each_form_of_an_import_is_found() {
        let text = "import {\n  http as web,\n  job, type Job,\n} from \"duebox\";\nexport { nack } from 'duebox';\n\
                    import type { Verdict } from \"duebox\";\nimport { other } from \"./duebox\";";
        assert_eq!(names(text), ["http", "job", "nack"]);
        assert_eq!(names("import * as d from \"duebox\";\nd.kv.get(1); id.push()"), ["kv"]);
        assert_eq!(names("const { log, push: later } = require('duebox');"), ["log", "push"]);
        assert_eq!(names("from duebox import (http,\n    kv as store)\n"), ["http", "kv"]);
        assert_eq!(names("import duebox\n\nduebox.log.info(\"duebox.kv\")\n"), ["log"]);
        assert!(names("const name = \"duebox\";").is_empty());
    }
}
