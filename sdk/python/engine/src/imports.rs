//! The imports of one source, as lines for the daemon:
//!
//! ```text
//! error OFFSET MESSAGE                 the source is refused; nothing else follows
//! import OFFSET MODULE                 `import a.b`
//! from OFFSET LEVEL MODULE NAME,…      `from ..a import b, c`: the dots, the module after them (`-` if there is
//!                                      none) and the names
//! ```
//!
//! Offsets are in bytes. Names are identifiers, so they have neither blanks nor commas. Imports in functions, in
//! `try` and behind conditions count too.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use duebox_engine_abi as abi;
use ruff_python_ast::Stmt;
use ruff_python_ast::statement_visitor::{StatementVisitor, walk_stmt};

/// The verdict of a job whose result is complete.
const ACK: i32 = 0;
const DROP: i32 = 2;

/// Reads the source that is the payload.
pub(crate) fn handle(length: u32) -> i32 {
    let payload = abi::payload(length);
    let lines = match std::str::from_utf8(&payload) {
        Ok(source) => list(source),
        Err(error) => format!("error {} it is not UTF-8\n", error.valid_up_to()),
    };
    match abi::result(lines.as_bytes()) {
        0 => ACK,
        _ => {
            abi::reason("it has more imports than one file can have");
            DROP
        }
    }
}

fn list(source: &str) -> String {
    let parsed = match ruff_python_parser::parse_module(source) {
        Ok(parsed) => parsed,
        Err(error) => {
            let offset = error.location.start().to_u32();
            return format!("error {offset} {}\n", error.error.to_string().replace('\n', " "));
        }
    };
    let mut found = Imports::default();
    found.visit_body(&parsed.syntax().body);
    found.lines
}

#[derive(Default)]
struct Imports {
    lines: String,
    seen: BTreeSet<String>,
}

impl Imports {
    /// Adds an import. A repeated one is left out.
    fn add(&mut self, word: &str, offset: u32, rest: String) {
        if self.seen.insert(rest.clone()) {
            // Writing to a String does not fail.
            let _ = writeln!(self.lines, "{word} {offset} {rest}");
        }
    }
}

impl<'a> StatementVisitor<'a> for Imports {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.add("import", alias.range.start().to_u32(), alias.name.to_string());
                }
            }
            Stmt::ImportFrom(import) => {
                let names: Vec<&str> = import.names.iter().map(|it| it.name.as_str()).collect();
                let module = import.module.as_ref().map_or("-", |module| module.as_str());
                let rest = format!("{} {module} {}", import.level, names.join(","));
                self.add("from", import.range.start().to_u32(), rest);
            }
            other => walk_stmt(self, other),
        }
    }
}
