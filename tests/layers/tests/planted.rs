//! Imports against the order, planted in a crate of three layers: `outer`, then `left` next to `right`, then
//! `inner`. Each test says which lines the check reports.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use duebox_layers::{Crate, Exception, check};

const ROWS: &[&[&str]] = &[&["outer"], &["left", "right"], &["inner"]];
const PLANTED: Crate = Crate { name: "planted", src: "src", rows: ROWS, exceptions: &[] };

/// A crate that is in order; `files` are added or replace its own.
fn faults_of(declared: &Crate, files: &[(&str, &str)]) -> Vec<String> {
    let sound = [
        ("lib.rs", "mod inner;\nmod left;\nmod outer;\nmod right;\n"),
        ("outer.rs", "use crate::inner::Thing;\nuse crate::left;\nfn f() -> Thing { left::f() }\n"),
        ("left.rs", "use crate::inner::Thing;\npub(crate) fn f() -> Thing { Thing }\n"),
        ("right.rs", "pub(crate) struct Right(super::inner::Thing);\n"),
        ("inner.rs", "pub(crate) struct Thing;\n"),
    ];
    let root = tempfile::tempdir().unwrap();
    for (name, text) in sound.iter().chain(files) {
        let path = root.path().join("src").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let checked = check(root.path(), declared).unwrap();
    let prefix = format!("{}/src", root.path().display());
    let shown = checked.violations.iter().map(ToString::to_string);
    shown.map(|fault| fault.replace(&format!("{prefix}/"), "").replace(&prefix, "src")).collect()
}

fn faults(files: &[(&str, &str)]) -> Vec<String> {
    faults_of(&PLANTED, files)
}

/// What is reported if `inner.rs` imports `outer` on the given lines.
fn backwards(found: &[(usize, &str)]) -> Vec<String> {
    let tell = |(line, import): &(usize, &str)| {
        format!(
            "inner.rs:{line}: `{import}`: inner must not import outer, which is before it in the order"
        )
    };
    found.iter().map(tell).collect()
}

#[test]
fn a_crate_in_order_has_no_faults() {
    assert_eq!(faults(&[]), [""; 0]);
}

#[test]
fn an_import_against_the_order_is_reported_with_its_line() {
    let text = "pub(crate) struct Thing;\n\nuse crate::outer::f;\n";
    assert_eq!(faults(&[("inner.rs", text)]), backwards(&[(3, "crate::outer::f")]));
}

#[test]
fn layers_of_one_row_do_not_import_each_other() {
    let fault =
        "right.rs:1: `crate::left::f`: right must not import left, which is in the same row";
    assert_eq!(faults(&[("right.rs", "use crate::left::f;\n")]), [fault]);
}

#[test]
fn nested_use_is_taken_apart() {
    let text = "use std::fmt;\nuse crate::{\n    inner::deep::Deep,\n    outer::{\n        self,\n        f as g,\n    },\n};\npub(crate) mod deep { pub(crate) struct Deep; }\n";
    let found = [(5, "crate::outer"), (6, "crate::outer::f")];
    assert_eq!(faults(&[("inner.rs", text)]), backwards(&found));
}

#[test]
fn super_and_self_are_followed_in_nested_files_and_inline_modules() {
    let deep = "use super::super::outer::f;\nmod inline {\n    fn g() { super::super::super::outer::f(); self::super::h(); }\n}\nfn h() { super::Thing; }\n";
    let found =
        faults(&[("inner.rs", "mod deep;\npub(crate) struct Thing;\n"), ("inner/deep.rs", deep)]);
    let lines: Vec<_> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["inner/deep.rs:1", "inner/deep.rs:3"]);
}

#[test]
fn paths_in_types_expressions_patterns_bounds_and_impls_are_seen() {
    let text = "\
struct A(Vec<crate::outer::T1>);
fn b<T: crate::outer::T2>() where T: Into<crate::outer::T3> { crate::outer::t4(); }
fn c(x: u8) { match x { crate::outer::T5 => {} _ => {} } }
impl crate::outer::T6 for A {}
type D = <A as crate::outer::T7>::Out;
const E: u8 = { const F: u8 = crate::outer::T8; F };
fn g() { let _ = || async { crate::outer::t9().await }; }
fn h() { use crate::outer::t10; }
";
    let paths: Vec<String> = faults(&[("inner.rs", text)])
        .iter()
        .map(|fault| fault.split('`').nth(1).unwrap().to_owned())
        .collect();
    let expected = ["T1", "T2", "T3", "t4", "T5", "T6", "T7::Out", "T8", "t9", "t10"];
    assert_eq!(paths, expected.map(|name| format!("crate::outer::{name}")));
}

#[test]
fn tokens_of_macros_are_seen() {
    let text = "\
fn a() { println!(\"{}\", crate::outer::t1()); }
fn b() { assert!(matches!(1, crate::outer::T2 if [super::outer::t3()].is_empty())); }
macro_rules! m { () => { $crate::outer::t4() }; }
some! { use crate::{outer::{T5, T6}, inner::T7}; }
crate::outer::made! {}
";
    let found = faults(&[("inner.rs", text)]);
    let lines: Vec<_> =
        found.iter().map(|fault| fault.split('`').take(2).collect::<Vec<_>>().join("")).collect();
    let expected = [
        "inner.rs:1: crate::outer::t1",
        "inner.rs:2: crate::outer::T2",
        "inner.rs:2: super::outer::t3",
        "inner.rs:3: crate::outer::t4",
        "inner.rs:4: crate::outer::T5",
        "inner.rs:4: crate::outer::T6",
        "inner.rs:5: crate::outer::made",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn attributes_and_their_strings_are_seen() {
    let text = "\
/// Documentation may name crate::outer and `\"crate::outer::f\"`.
#[derive(crate::outer::Made)]
struct A {
    #[serde(with = \"crate::outer::wire\", rename = \"crate::outer is text\")]
    b: u8,
}
";
    let found = [(2, "crate::outer::Made"), (4, "crate::outer::wire")];
    assert_eq!(faults(&[("inner.rs", text)]), backwards(&found));
}

#[test]
fn what_only_tests_compile_is_left_out() {
    let text = "\
#[cfg(test)]
mod tests { use crate::outer::f; }
#[cfg(all(unix, test))]
use crate::outer::f;
#[cfg(test)]
mod elsewhere;
struct Thing;
impl Thing {
    #[cfg(test)]
    fn g(&self) { crate::outer::f() }
}
#[cfg(not(test))]
use crate::outer::h;
#[cfg(any(test, unix))]
use crate::outer::i;
";
    let elsewhere = ("inner/elsewhere.rs", "use crate::outer::f;\n");
    let found = [(13, "crate::outer::h"), (15, "crate::outer::i")];
    assert_eq!(faults(&[("inner.rs", text), elsewhere]), backwards(&found));
}

#[test]
fn re_exports_of_the_root_lead_to_their_layer() {
    let lib = "\
mod inner;
mod left;
mod outer;
mod right;
pub use outer::deep::Named;
use crate::outer::Private as Renamed;
pub use outer::*;
pub use std::fmt::Debug;
pub use inner::Thing;
pub struct OfTheRoot;
";
    let outer = "pub mod deep { pub struct Named; }\npub struct Private;\npub struct ByGlob;\n\
                 #[macro_export]\nmacro_rules! exported { () => {} }\n";
    let inner = "use crate::Named;\nuse crate::{Debug, OfTheRoot, Thing as Other};\nuse super::Renamed;\n\
                 use crate::ByGlob;\nfn f() { crate::exported!(); }\npub struct Thing;\n";
    let found = faults(&[("lib.rs", lib), ("outer.rs", outer), ("inner.rs", inner)]);
    let expected =
        [(1, "crate::Named"), (3, "super::Renamed"), (4, "crate::ByGlob"), (5, "crate::exported")];
    assert_eq!(found, backwards(&expected));
}

#[test]
fn re_exports_that_name_each_other_end() {
    let lib =
        "mod inner;\nmod left;\nmod outer;\nmod right;\nuse crate::A as B;\nuse crate::B as A;\n";
    assert_eq!(faults(&[("lib.rs", lib), ("inner.rs", "use crate::A;\n")]), [""; 0]);
}

#[test]
fn the_root_as_a_whole_is_not_imported() {
    let found = faults(&[("inner.rs", "use crate::*;\nuse super as root;\n")]);
    let tell = |line: usize, import: &str| {
        format!(
            "inner.rs:{line}: `{import}`: inner must import by name, not the root of the crate as a whole"
        )
    };
    assert_eq!(found, [tell(1, "crate::*"), tell(2, "super")]);
}

#[test]
fn the_roots_and_other_crates_import_what_they_like() {
    let lib = "mod inner;\nmod left;\nmod outer;\nmod right;\nuse crate::outer::f;\nfn g() { outer::f() }\n";
    let main = ("main.rs", "use planted::{inner, outer};\nfn main() {}\n");
    let inner =
        ("inner.rs", "use ::outer::x;\nuse outer::y;\npub(in crate::inner) struct Thing;\n");
    assert_eq!(faults(&[("lib.rs", lib), main, inner]), [""; 0]);
}

#[test]
fn the_declared_order_matches_the_layers_there_are() {
    let lib = "mod inner;\nmod left;\nmod new;\nmod outer;\n";
    let found = faults(&[("lib.rs", lib), ("new.rs", "")]);
    let declared = "tests/layers/src/declared.rs";
    let expected = [
        format!("src: layer new has no place in the order; add it to {declared}"),
        format!("src: there is no layer right; remove it from {declared}"),
    ];
    assert_eq!(found, expected);
    let twice = Crate { rows: &[&["outer"], &["left", "right"], &["inner", "left"]], ..PLANTED };
    let expected = format!("src: layer left is in the order twice; see {declared}");
    assert!(faults_of(&twice, &[]).contains(&expected));
}

#[test]
fn an_exception_covers_its_file_and_layer_and_must_be_needed() {
    let exceptions = &[Exception { file: "inner.rs", layer: "outer", reason: "planted" }];
    let declared = Crate { exceptions, ..PLANTED };
    let inner = ("inner.rs", "use crate::outer::f;\nuse crate::left::f as g;\npub struct Thing;\n");
    let fault =
        "inner.rs:2: `crate::left::f`: inner must not import left, which is before it in the order";
    assert_eq!(faults_of(&declared, &[inner]), [fault]);
    let unused = "src: inner.rs does not import outer; remove the exception from tests/layers/src/declared.rs";
    assert_eq!(faults_of(&declared, &[]), [unused]);
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let root = tempfile::tempdir().unwrap();
    let failure = |lib: Option<&str>| {
        let src = root.path().join("src");
        std::fs::create_dir_all(&src).unwrap();
        if let Some(text) = lib {
            std::fs::write(src.join("lib.rs"), text).unwrap();
        }
        check(root.path(), &PLANTED).unwrap_err().to_string()
    };
    assert!(failure(None).ends_with("has neither lib.rs nor main.rs"));
    assert!(failure(Some("mod absent;")).ends_with("no file for `mod absent`"));
    assert!(failure(Some("\nfn (")).contains("lib.rs:2: cannot parse: "));
}
