//! Finds the imports of a source: the engine without a program, whose output `sdk/python/engine/src/imports.rs`
//! describes.

use duebox_sandbox::{Digest, Grants, Handler, Limits, Sandbox, Script};
use parking_lot::Mutex;

use super::super::Interpreter;
use super::super::error::SourceError;
use super::super::parser::{self, Parser};

/// The parser of the engine that was used last.
static PARSER: Mutex<Option<(Digest, Handler)>> = Mutex::new(None);

pub(super) struct Reader(Parser);

/// What a source contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceReport {
    /// The place and the message of a syntax error.
    pub(super) error: Option<(usize, String)>,
    pub(super) imports: Vec<Import>,
}

/// One import statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The dots before the module; 0 for an absolute import.
    pub(super) level: usize,
    /// The module; empty in `from . import a`.
    pub(super) module: String,
    /// What `from` imports, which may be modules too.
    pub(super) names: Vec<String>,
}

impl Reader {
    /// Starts the parser. The first time the engine is compiled, unless the cache has it.
    pub(super) fn start(sandbox: &Sandbox, engine: &Interpreter) -> Result<Self, SourceError> {
        let mut known = PARSER.lock();
        if let Some((digest, parser)) = &*known
            && *digest == engine.digest
        {
            return Parser::new(parser.clone()).map(Self);
        }
        let limits = Limits { memory: parser::MEMORY_MAX, ..Limits::default() };
        let script = Script {
            interpreter: &engine.module,
            interpreter_digest: engine.digest,
            program: &[],
            digest: engine.digest,
            seed: None,
        };
        let parser = sandbox.load_script(&script, limits, Grants::default());
        let parser = parser.map_err(|error| SourceError::Start(error.to_string()))?;
        *known = Some((engine.digest, parser.clone()));
        Parser::new(parser).map(Self)
    }

    /// Parses a source, or says why that is not possible.
    pub(super) fn read(&self, source: &str) -> Result<SourceReport, String> {
        self.0.run(source.to_owned()).map(|lines| SourceReport::parse(&lines))
    }
}

impl SourceReport {
    fn parse(lines: &str) -> Self {
        let mut report = Self::default();
        for line in lines.lines() {
            let mut words = line.splitn(3, ' ');
            let (word, offset) = (words.next().unwrap_or_default(), words.next());
            let offset = offset.and_then(|offset| offset.parse().ok()).unwrap_or(0);
            let rest = words.next().unwrap_or_default();
            match word {
                "error" => report.error = Some((offset, rest.to_owned())),
                "import" => report.imports.push(Import::absolute(rest)),
                "from" => report.imports.extend(Import::from(rest)),
                _ => {}
            }
        }
        report
    }
}

impl Import {
    fn absolute(module: &str) -> Self {
        Self { level: 0, module: module.to_owned(), names: Vec::new() }
    }

    fn from(rest: &str) -> Option<Self> {
        let mut words = rest.split(' ');
        let (level, module, names) = (words.next()?, words.next()?, words.next()?);
        let module = if module == "-" { String::new() } else { module.to_owned() };
        let names = names.split(',').filter(|name| *name != "*").map(str::to_owned).collect();
        Some(Self { level: level.parse().ok()?, module, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let report = SourceReport::parse("import 7 a.b\nfrom 9 2 - c,d\nfrom 20 0 e *\n");
        let import = |level, module: &str, names: &[&str]| Import {
            level,
            module: module.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let imports = vec![import(0, "a.b", &[]), import(2, "", &["c", "d"]), import(0, "e", &[])];
        assert_eq!(report, SourceReport { error: None, imports });
        let report = SourceReport::parse("error 3 Expected an expression\n");
        assert_eq!(report.error, Some((3, "Expected an expression".to_owned())));
    }
}
