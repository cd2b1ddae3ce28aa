//! The files of a project: the template of its language and its SDK, as they are in `sdk/`. `build.rs` embeds them.

use std::path::{Path, PathBuf};

use crate::cli::project::HandlerLanguage;

/// Names, from a folder, and contents.
type Files = &'static [(&'static str, &'static str)];

include!(concat!(env!("OUT_DIR"), "/projects.rs"));

/// The folder of the SDK in a project.
const SDK: &str = "sdk";
/// The name of the project and its topic in the templates.
const NAME: &str = "hello";

/// A change of a template's file that makes it independent of this repository.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// The templates are projects of this repository, next to their SDK. In a project the SDK is in a folder of its own.
fn edits(language: HandlerLanguage) -> &'static [Edit] {
    match language {
        HandlerLanguage::Rust => {
            &[Edit { file: "Cargo.toml", from: "path = \"..\"", to: "path = \"sdk\"" }]
        }
        HandlerLanguage::Go => &[Edit { file: "go.mod", from: "=> ..", to: "=> ./sdk" }],
        HandlerLanguage::AssemblyScript => {
            &[Edit { file: "package.json", from: "file:..", to: "file:./sdk" }]
        }
        HandlerLanguage::C => &[Edit { file: "compile_flags.txt", from: "-I..", to: "-Isdk" }],
        HandlerLanguage::TypeScript => &[
            Edit {
                file: "tsconfig.json",
                from: "../types/tsconfig.json",
                to: "./sdk/tsconfig.json",
            },
            Edit { file: "tsconfig.json", from: "[\"../types\"]", to: "[\"./sdk\"]" },
        ],
        HandlerLanguage::Python | HandlerLanguage::Wat => &[],
    }
}

/// Template and SDK of a language.
fn embedded(language: HandlerLanguage) -> (Files, Files) {
    match language {
        HandlerLanguage::TypeScript => (TYPESCRIPT_TEMPLATE, TYPESCRIPT_SDK),
        HandlerLanguage::Python => (PYTHON_TEMPLATE, PYTHON_SDK),
        HandlerLanguage::Rust => (RUST_TEMPLATE, RUST_SDK),
        HandlerLanguage::Go => (GO_TEMPLATE, GO_SDK),
        HandlerLanguage::AssemblyScript => (ASSEMBLYSCRIPT_TEMPLATE, ASSEMBLYSCRIPT_SDK),
        HandlerLanguage::C => (C_TEMPLATE, C_SDK),
        HandlerLanguage::Wat => (WAT_TEMPLATE, &[]),
    }
}

/// The files of a new project, from its folder. The manifest is the last one: a folder with a manifest is complete.
pub(super) fn project_files(language: HandlerLanguage, name: &str) -> Vec<(PathBuf, String)> {
    let (template, sdk) = embedded(language);
    let own = template.iter().map(|(file, text)| {
        let applies = |edit: &&Edit| edit.file == *file;
        let edited = edits(language).iter().filter(applies);
        let text =
            edited.fold((*text).to_owned(), |text, Edit { from, to, .. }| text.replace(from, to));
        (PathBuf::from(file), text.replace(NAME, name))
    });
    let sdk = sdk.iter().map(|(file, text)| (Path::new(SDK).join(file), (*text).to_owned()));
    let mut files: Vec<_> = sdk.chain(own).collect();
    files.sort_by_key(|(file, _)| file == Path::new("duebox.toml"));
    files
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn nothing_points_out_of_a_project() {
        for language in HandlerLanguage::value_variants() {
            let files = project_files(*language, "order-close");
            for Edit { file, to, .. } in edits(*language) {
                let (_, text) = files.iter().find(|(name, _)| name == Path::new(file)).unwrap();
                assert_eq!(text.matches(to).count(), 1, "{language:?} {file}");
            }
            let own = files.iter().filter(|(file, _)| !file.starts_with(SDK));
            for (file, text) in own {
                assert!(!text.contains("..\""), "{language:?} {file:?}");
                assert!(!text.contains("hello"), "{language:?} {file:?}");
            }
            let (last, manifest) = files.last().unwrap();
            assert_eq!(last, Path::new("duebox.toml"));
            assert!(manifest.contains("[topics.order-close]"), "{manifest}");
        }
    }

    #[test]
    fn every_project_explains_itself_and_the_sdks_are_whole() {
        let has = |language, file: &str| {
            project_files(language, "a").iter().any(|(name, _)| name == Path::new(file))
        };
        for language in HandlerLanguage::value_variants() {
            for file in ["README.md", ".gitignore"] {
                assert!(has(*language, file), "{language:?} {file}");
            }
        }
        for (language, file) in [
            (HandlerLanguage::Rust, "sdk/src/lib.rs"),
            (HandlerLanguage::Rust, ".cargo/config.toml"),
            (HandlerLanguage::Go, "sdk/internal/abi/imports_wasm.go"),
            (HandlerLanguage::Go, "main_test.go"),
            (HandlerLanguage::AssemblyScript, "sdk/assembly/index.ts"),
            (HandlerLanguage::C, "sdk/duebox.h"),
            (HandlerLanguage::TypeScript, "sdk/index.d.ts"),
            (HandlerLanguage::TypeScript, "sdk/tsconfig.json"),
            (HandlerLanguage::Python, "sdk/duebox.pyi"),
        ] {
            assert!(has(language, file), "{file}");
        }
        assert!(!has(HandlerLanguage::Go, "sdk/verdict_test.go"));
        assert!(!has(HandlerLanguage::TypeScript, "sdk/testing.mjs"));
    }
}
