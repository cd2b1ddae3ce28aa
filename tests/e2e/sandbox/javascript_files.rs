//! The files of a handler that is bound as source: the first job without any tools, imports, reload, and errors with
//! their place.

use std::fs;
use std::process::Command;

use duebox_harness::{Daemon, LogLine, duebox_binary};

use crate::support::fixture::{Fixture, topic};
use crate::support::log::{is_handler_line, is_verdict, settled_as};
use crate::support::producer::push;

/// Writes files, with their folders.
fn write(fixture: &Fixture, files: &[(&str, &str)]) {
    for (name, content) in files {
        fs::create_dir_all(fixture.path(name).parent().unwrap()).unwrap();
        fixture.write(name, content);
    }
}

/// A daemon that finds no program: no Node, no compiler.
fn start_without_tools(fixture: &Fixture) -> Daemon {
    let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.env("PATH", fixture.path("no-programs"));
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    daemon
}

fn wrote(text: &str) -> impl Fn(&LogLine) -> bool {
    let text = text.to_owned();
    move |line| is_handler_line(line) && line.message() == text
}

fn serves_anew(line: &LogLine) -> bool {
    line.message().starts_with("a new module serves")
}

#[test]
fn a_saved_file_serves_without_any_tools() {
    let fixture = Fixture::new();
    let source = |text: &str| {
        format!("export default (order: {{ id?: number }}) => {{ console.log('{text}') }}")
    };
    fixture.write("close.ts", source("first"));
    fixture.manifest("", &[topic("close", "close.ts", "")]);
    let daemon = start_without_tools(&fixture);
    push(&fixture, "close", "1", 0);
    daemon.wait_for_line("the first version", wrote("first"));
    fixture.write("close.ts", source("second"));
    daemon.wait_for_line("the new version", serves_anew);
    push(&fixture, "close", "2", 0);
    daemon.wait_for_line("the second version", wrote("second"));
    daemon.wait_for_line("done", |line| settled_as(line, "done") && line.has("job_id", "2"));
}

#[test]
fn a_broken_file_is_refused_with_its_place_and_the_program_in_service_stays() {
    let fixture = Fixture::new();
    let text = |text: &str| format!("export const text: string = '{text}';\n");
    write(
        &fixture,
        &[
            ("package.json", "{}"),
            ("lib/text.ts", &text("first")),
            (
                "main.ts",
                "import { text } from './lib/text';\nexport default () => { console.log(text) };\n",
            ),
        ],
    );
    fixture.manifest("", &[topic("main", "main.ts", "")]);
    let daemon = fixture.start();
    fixture.write("lib/text.ts", "export const text: string = ;\n");
    let refused = daemon.wait_for_line("the refusal", |line| {
        line.has("level", "WARN") && line.text().contains("lib/text.ts")
    });
    for part in ["lib/text.ts:1:29", "1 | export const text: string = ;"] {
        assert!(refused.text().contains(part), "{part} is missing: {}", refused.text());
    }
    push(&fixture, "main", "1", 0);
    daemon.wait_for_line("the version in service", wrote("first"));
    fixture.write("lib/text.ts", text("second"));
    daemon.wait_for_line("the new version", serves_anew);
    push(&fixture, "main", "2", 0);
    daemon.wait_for_line("the second version", wrote("second"));
}

#[test]
fn a_handler_imports_files_json_and_packages() {
    let fixture = Fixture::new();
    write(
        &fixture,
        &[
            ("package.json", "{}"),
            (
                "handlers/main.ts",
                "import rates from '../rates.json' with { type: 'json' };
import { double, type Amount } from '../lib/money.js';
import pad from 'pad';
import { inner } from '@scope/tool/inner';
export default () => { console.log(pad(double(rates.eur as Amount)), inner) };
",
            ),
            ("rates.json", r#"{ "eur": 21 }"#),
            (
                "lib/money.ts",
                "export type Amount = number;\nexport const double = (a: Amount) => 2 * a;\n",
            ),
            (
                "node_modules/pad/package.json",
                r#"{ "exports": { "import": "./pad.mjs", "require": "./pad.cjs" } }"#,
            ),
            (
                "node_modules/pad/pad.mjs",
                "export default (value) => String(value).padStart(4, '0');\n",
            ),
            ("node_modules/@scope/tool/package.json", r#"{ "exports": { "./*": "./dist/*.js" } }"#),
            ("node_modules/@scope/tool/dist/inner.js", "export const inner = 'inside';\n"),
        ],
    );
    fixture.manifest("", &[topic("main", "handlers/main.ts", "")]);
    let daemon = fixture.start();
    push(&fixture, "main", "1", 0);
    daemon.wait_for_line("what was imported", wrote("0042 inside"));
}

#[test]
fn packages_in_common_js_and_enums_run() {
    let fixture = Fixture::new();
    write(
        &fixture,
        &[
            ("package.json", "{}"),
            (
                "main.ts",
                "import pad, { width } from 'pad';
import { Level } from './level';
class Line { constructor(private readonly level: Level) {} text() { return Level[this.level] } }
export default () => { console.log(pad(new Line(Level.High).text()), width) };
",
            ),
            ("level.ts", "export enum Level { Low = 1, High }\n"),
            ("node_modules/pad/package.json", r#"{ "main": "lib" }"#),
            (
                "node_modules/pad/lib/index.js",
                "'use strict';
const { version } = require('../package.json');
const { width } = require('./width');
module.exports = function pad(text) { return text.padStart(width, '.') + (version || '') };
module.exports.width = width;
",
            ),
            (
                "node_modules/pad/lib/width.js",
                "if (process.env.NODE_ENV !== 'production') require('util');\nexports.width = 6;\n",
            ),
        ],
    );
    fixture.manifest("", &[topic("main", "main.ts", "")]);
    let daemon = fixture.start();
    push(&fixture, "main", "1", 0);
    daemon.wait_for_line("what the package returns", wrote("..High 6"));
}

/// Each file is wrong in its own way. `duebox check` shows all of them.
#[test]
fn check_shows_the_file_the_line_and_the_remedy() {
    let fixture = Fixture::new();
    let files = [
        ("syntax.ts", "const a = 1;\nexport default (: string) => {};\n", "syntax.ts:2:17"),
        ("node.ts", "import fs from 'node:fs';\nexport default () => fs;\n", "a module of Node"),
        ("absent.js", "\nimport './lacking.js';\nexport default () => {};\n", "absent.js:2:8"),
        (
            "namespace.ts",
            "namespace Colour { export const red = 1 }\nexport default () => Colour.red;\n",
            "a namespace is more than a type",
        ),
        ("view.tsx", "export default () => <a/>;\n", "cannot be a file with JSX"),
        ("old.cjs", "module.exports = () => {};\n", "cannot be a file with CommonJS"),
        ("top.js", "const a = null;\na.b;\nexport default () => {};\n", "top.js:2:"),
        ("none.js", "export const handle = () => {};\n", "exports no function as default"),
        (
            "endless.js",
            "for (;;) {}\nexport default () => {};\n",
            "its top level failed: it did not end within 10 s",
        ),
        (
            "reads.js",
            "import { job } from 'duebox'; job.id; export default () => {};\n",
            "there is no job while",
        ),
    ];
    let topics = files.map(|(file, source, _)| {
        fixture.write(file, source);
        topic(file.split('.').next().unwrap(), file, "")
    });
    fixture.manifest("", &topics);
    let output = Command::new(duebox_binary())
        .arg("check")
        .current_dir(fixture.path("."))
        .env_remove("DUEBOX_MANIFEST")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    for (file, _, part) in files {
        assert!(text.contains(part), "{file}: {part:?} is missing in: {text}");
    }
}

#[test]
fn an_exception_names_the_line_of_an_imported_file() {
    let fixture = Fixture::new();
    write(
        &fixture,
        &[
            ("package.json", "{}"),
            (
                "main.ts",
                "import { fail } from './lib/fail';\nexport default async () => { await fail(1) };\n",
            ),
            (
                "lib/fail.ts",
                "interface Cause { a: number }\n\nexport async function fail(a: number): Promise<Cause> {\n  throw new RangeError(`no ${a}`);\n}\n",
            ),
        ],
    );
    fixture.manifest("", &[topic("main", "main.ts", "")]);
    let daemon = fixture.start();
    push(&fixture, "main", "1", 0);
    let failed = daemon.wait_for_line("the failure", is_verdict);
    assert!(failed.has("class", "nack"), "{}", failed.text());
    for part in ["RangeError: no 1", "lib/fail.ts:4:"] {
        assert!(failed.text().contains(part), "{part} is missing: {}", failed.text());
    }
}
