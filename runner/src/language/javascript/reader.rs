//! Parses a file: `sdk/javascript/reader` in the sandbox, whose output `src/report.rs` there describes.

use duebox_sandbox::{Grants, Handler, Limits, Sandbox};
use parking_lot::Mutex;

use super::super::error::SourceError;
use super::super::parser::{self, Parser};
use super::blank::Blank;

/// The parser, which is compiled once for all files.
static PARSER: Mutex<Option<Handler>> = Mutex::new(None);

pub(super) struct Reader(Parser);

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    JavaScript,
    TypeScript,
    CommonJs,
    /// A file of a package: a CommonJS module if it has neither import nor export.
    OfPackage,
}

/// What a file contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceReport {
    /// The place and the message of a syntax error.
    pub(super) error: Option<(usize, String)>,
    /// Whether it has neither import nor export.
    pub(super) is_script: bool,
    /// Its imports, with their places.
    pub(super) imports: Vec<(usize, String)>,
    /// What it requires, if it is a CommonJS module.
    pub(super) requires: Vec<String>,
    pub(super) blanks: Vec<Blank>,
}

impl Reader {
    /// Starts the parser. The first time it is compiled, unless the cache has it.
    pub(super) fn start(sandbox: &Sandbox, module: &[u8]) -> Result<Self, SourceError> {
        let mut known = PARSER.lock();
        let parser = match &*known {
            Some(parser) => parser.clone(),
            None => {
                let limits = Limits { memory: parser::MEMORY_MAX, ..Limits::default() };
                let loaded = sandbox.load(module, limits, Grants::default());
                let loaded = loaded.map_err(|error| SourceError::Start(error.to_string()));
                known.insert(loaded?).clone()
            }
        };
        Parser::new(parser).map(Self)
    }

    /// Parses a file, or says why that is not possible.
    pub(super) fn read(&self, source: &str, language: Language) -> Result<SourceReport, String> {
        let language = match language {
            Language::JavaScript => "j",
            Language::TypeScript => "t",
            Language::CommonJs => "c",
            Language::OfPackage => "p",
        };
        let lines = self.0.run([language, source].concat())?;
        Ok(SourceReport::parse(&lines))
    }
}

impl SourceReport {
    fn parse(lines: &str) -> Self {
        let (mut report, mut at) = (Self::default(), 0);
        for line in lines.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = |text: &str| text.parse().unwrap_or(0);
            let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            match word {
                "error" => report.error = Some((number(first), rest.to_owned())),
                "script" => report.is_script = true,
                "import" => report.imports.push((number(first), rest.to_owned())),
                "require" => report.requires.push(rest.to_owned()),
                "-" => {
                    let (length, text) = rest.split_once(' ').unwrap_or((rest, ""));
                    let start = usize::saturating_add(at, number(first));
                    at = start.saturating_add(number(length));
                    report.blanks.push(Blank { start, end: at, text: text.to_owned() });
                }
                _ => {}
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let report =
            SourceReport::parse("script\nimport 7 ./a b\nrequire 9 c\n- 1 3 (a b)\n- 1 1\n");
        let blank = |start, end, text: &str| Blank { start, end, text: text.to_owned() };
        let blanks = vec![blank(1, 4, "(a b)"), blank(5, 6, "")];
        let (imports, requires) = (vec![(7, "./a b".to_owned())], vec!["c".to_owned()]);
        assert_eq!(
            report,
            SourceReport { error: None, is_script: true, imports, requires, blanks }
        );
        let report = SourceReport::parse("error 3 Unexpected token\n");
        assert_eq!(report.error, Some((3, "Unexpected token".to_owned())));
    }
}
