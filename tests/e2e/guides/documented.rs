//! Each public item of the SDKs in Go, AssemblyScript, C and TypeScript has a comment above it. In Rust the compiler asks
//! for it.

use std::fs;
use std::path::{Path, PathBuf};

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk");

/// The public items of the SDK in one language.
struct Items {
    folders: &'static [&'static str],
    extension: &'static str,
    /// Whether a line of a source begins a public item.
    is_public: fn(&str) -> bool,
    /// The least number of them: fewer means that they are not found.
    least: usize,
}

fn starts_with_capital(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_uppercase())
}

fn is_public_in_go(line: &str) -> bool {
    if let Some(method) = line.strip_prefix("func (") {
        let (receiver, name) = method.split_once(") ").unwrap_or((method, ""));
        let of = receiver.rsplit([' ', '*']).next().unwrap_or("");
        return starts_with_capital(of) && starts_with_capital(name);
    }
    ["func ", "type ", "var ", "const "]
        .iter()
        .any(|word| line.strip_prefix(word).is_some_and(starts_with_capital))
}

fn is_public_in_assemblyscript(line: &str) -> bool {
    let item = line.trim_start();
    let is_method = line.len() == item.len() + 2 && item.ends_with('{') && item.contains('(');
    let words = ["private", "if", "for", "while", "switch", "constructor", "return", "const", "do"];
    let first = item.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or("");
    let is_named = !first.is_empty() && !words.contains(&first) && !item.contains(" => ");
    (item.starts_with("export ") && !item.starts_with("export {")) || (is_method && is_named)
}

fn is_public_in_c(line: &str) -> bool {
    let Some(declared) = line.strip_prefix("DUEBOX_UNUSED static ") else { return false };
    !declared.split('(').next().unwrap_or("").ends_with('_')
}

fn is_public_in_typescript(line: &str) -> bool {
    line.trim_start().starts_with("export ")
}

const ALL: [Items; 4] = [
    Items {
        folders: &["go", "go/dueboxtest", "go/dueboxhttp"],
        extension: ".go",
        is_public: is_public_in_go,
        least: 60,
    },
    Items {
        folders: &["assemblyscript/assembly"],
        extension: ".ts",
        is_public: is_public_in_assemblyscript,
        least: 100,
    },
    Items { folders: &["c"], extension: ".h", is_public: is_public_in_c, least: 55 },
    Items {
        folders: &["javascript/types"],
        extension: "index.d.ts",
        is_public: is_public_in_typescript,
        least: 12,
    },
];

fn sources(items: &Items) -> Vec<PathBuf> {
    let entries = items.folders.iter().flat_map(|folder| {
        let entries = fs::read_dir(Path::new(SDK).join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let is_source = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(items.extension) && !name.ends_with("_test.go")
    };
    entries.filter(is_source).collect()
}

/// The public items without a comment, and how many there are in all.
fn without_comment(text: &str, is_public: fn(&str) -> bool) -> (Vec<String>, usize) {
    let (mut bare, mut all, mut above) = (Vec::new(), 0, "");
    for line in text.lines() {
        if is_public(line) {
            all += 1;
            if !(above.starts_with("//") || above.ends_with("*/")) {
                bare.push(line.to_owned());
            }
        }
        // A decorator or a directive stands between an item and its comment.
        if !line.trim_start().starts_with('@') && !line.starts_with("//go:") {
            above = line.trim();
        }
    }
    (bare, all)
}

#[test]
fn each_public_item_of_the_sdks_has_a_comment() {
    for items in &ALL {
        let mut count = 0;
        for source in sources(items) {
            let (bare, all) =
                without_comment(&fs::read_to_string(&source).unwrap(), items.is_public);
            count += all;
            assert!(bare.is_empty(), "{}: {bare:#?}", source.display());
        }
        assert!(count >= items.least, "{}: {count} items", items.folders[0]);
    }
    let bare = |text: &str, is_public: fn(&str) -> bool| without_comment(text, is_public).0.len();
    assert_eq!(
        bare(
            "// A\nfunc (j *Job) ID() {}\nfunc (j Job) At() {}\nfunc (e *err) Error() {}",
            is_public_in_go
        ),
        1
    );
    assert_eq!(
        bare("  /** A */\n  get a(): i32 {\n  set(b: i32): void {", is_public_in_assemblyscript),
        1
    );
}
