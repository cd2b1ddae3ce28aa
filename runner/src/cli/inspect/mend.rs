//! What to do about a refused module, in the words of its language: what to change, and the command that builds it.
//! What depends on no language has the general remedy of [`LoadError::remedy`].

use duebox_sandbox::{LoadError, ModuleOutline};

use crate::cli::project::HandlerLanguage::{self, AssemblyScript, C, Go, Python, Rust, TypeScript};
use crate::manifest::nearest;

const RUST_BUILD: &str =
    "build it with: duebox build (or: cargo build --release --target wasm32-unknown-unknown)";
const GO_BUILD: &str = "build it with: duebox build (or: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o build/handler.wasm .)";
const C_BUILD: &str = "build it with: duebox build (or: clang --target=wasm32 -O2 -ffreestanding -nostdlib -Wl,--no-entry -o build/handler.wasm handler.c)";
const ASSEMBLYSCRIPT_BUILD: &str = "build it with: duebox build (or: npx asc assembly/index.ts --target release --outFile build/handler.wasm)";
/// The names that people give to a function that should be `handle`.
const SIMILAR_NAMES: [&str; 8] =
    ["_handle", "Handle", "handler", "handle_job", "handleJob", "run", "process", "main"];

/// A refused module, and what is known of it.
pub(super) struct Refused<'a> {
    pub(super) error: &'a LoadError,
    pub(super) language: Option<HandlerLanguage>,
    pub(super) outline: Option<&'a ModuleOutline>,
    /// The first bytes of the file.
    pub(super) start: &'a [u8],
}

impl Refused<'_> {
    /// What to do about it.
    pub(super) fn remedy(&self) -> String {
        let special = match self.error {
            LoadError::NotWasm => self.not_wasm(),
            LoadError::Component => self.component(),
            LoadError::Command => self.command(),
            LoadError::NoHandle => Some(self.no_handle()),
            LoadError::ExportType { name: "handle", .. } => self.handle_type(),
            LoadError::NoAlloc => self.handle_type(),
            LoadError::UnknownImport { module, name } => self.unknown_import(module, name),
            LoadError::Memory64 => self.memory64(),
            LoadError::TooLarge { .. } => Some(self.too_large()),
            LoadError::SharedMemory | LoadError::ImportedMemory { .. } => self.memory(),
            _ => None,
        };
        special.unwrap_or_else(|| self.error.remedy().into_owned())
    }

    fn not_wasm(&self) -> Option<String> {
        let is_native =
            self.start.starts_with(b"\x7fELF") || self.start.starts_with(b"\xcf\xfa\xed\xfe");
        is_native.then(|| {
            format!(
                "this file is a program or library for this machine: it was built without a target.\n\
                 Rust: {RUST_BUILD}\nGo: {GO_BUILD}\nC: {C_BUILD}"
            )
        })
    }

    fn component(&self) -> Option<String> {
        Some(match self.language? {
            Rust => format!(
                "the target wasm32-wasip2 and `cargo component` make components; {RUST_BUILD}"
            ),
            Go => format!("TinyGo's -target=wasip2 makes components; {GO_BUILD}"),
            TypeScript => {
                "serve the source itself, without a build: handler = \"handler.ts\" in duebox.toml"
                    .to_owned()
            }
            Python => {
                "serve the source itself, without a build: handler = \"handler.py\" in duebox.toml"
                    .to_owned()
            }
            C => format!(
                "leave out the step that makes a component (wasm-tools component new); {C_BUILD}"
            ),
            _ => return None,
        })
    }

    fn command(&self) -> Option<String> {
        Some(match self.language? {
            Rust => rust_program(),
            Go => format!(
                "this was built as a program: -buildmode=c-shared is missing. The handler is registered by \
                 `func init() {{ duebox.Handle(handle) }}`, and main stays empty; {GO_BUILD}"
            ),
            C => format!(
                "this is a program with a `main`, and a handler is a library: export the handler with \
                 DUEBOX_HANDLER(name) of duebox.h; {C_BUILD}. With wasi-sdk add -mexec-model=reactor"
            ),
            AssemblyScript => format!(
                "remove `exportStart` from asconfig.json, and --exportStart from the command; {ASSEMBLYSCRIPT_BUILD}"
            ),
            _ => return None,
        })
    }

    fn no_handle(&self) -> String {
        let exports = self.outline.map_or(&[][..], |outline| &outline.exports);
        let is_similar = |name: &str| SIMILAR_NAMES.contains(&name);
        let similar =
            exports.iter().find(|export| export.ty.starts_with('(') && is_similar(&export.name));
        // For this target a program of Rust has no `_start`.
        if self.language == Some(Rust) && similar.is_some_and(|export| export.name == "main") {
            return rust_program();
        }
        let found = similar.map_or(String::new(), |export| {
            format!("it exports `{}{}`, but the name must be `handle`: ", export.name, export.ty)
        });
        found
            + &match self.language {
                Some(Rust) => format!(
                    "call duebox_sdk::handler!(handle) in src/lib.rs, and have crate-type = [\"cdylib\"] under [lib] in Cargo.toml; {RUST_BUILD}"
                ),
                Some(Go) => format!(
                    "call duebox.Handle(handle) in `func init()` of package main; {GO_BUILD}"
                ),
                Some(AssemblyScript) => format!(
                    "export it from assembly/index.ts: `export function handle(payloadLength: i32): i32 {{ return run(payloadLength, greet); }}`; {ASSEMBLYSCRIPT_BUILD}"
                ),
                Some(C) => format!(
                    "end the source with DUEBOX_HANDLER(name) of duebox.h, without a semicolon; {C_BUILD}"
                ),
                _ => self.error.remedy().into_owned(),
            }
    }

    fn handle_type(&self) -> Option<String> {
        let by_hand = "handle(length: i32) -> i32";
        Some(match self.language? {
            Rust => "let the SDK export it: duebox_sdk::handler!(handle) for `fn handle(job: Job) -> Result<Verdict, Verdict>`. By hand it is \
                     `#[unsafe(no_mangle)] pub extern \"C\" fn handle(length: u32) -> i32`".to_owned(),
            Go => "let the SDK export it: duebox.Handle(handle) in `func init()`, for `func handle(job *duebox.Job) duebox.Verdict`. By hand it is \
                   `//go:wasmexport handle` above `func handle(length uint32) int32`".to_owned(),
            AssemblyScript => "declare it as `export function handle(payloadLength: i32): i32`; the payload is read by `run(payloadLength, greet)` of the SDK".to_owned(),
            C => "let the header export it: DUEBOX_HANDLER(name) for `static duebox_verdict name(void)`. By hand it is \
                  `__attribute__((export_name(\"handle\"))) int32_t handle(uint32_t length)`".to_owned(),
            HandlerLanguage::Wat => "declare it as (func (export \"handle\") (param $length i32) (result i32) …)".to_owned(),
            TypeScript | Python => format!("export {by_hand}"),
        })
    }

    fn unknown_import(&self, module: &str, name: &str) -> Option<String> {
        let is_bindgen =
            module.contains("wbindgen") || module == "wbg" || module.ends_with("_bg.js");
        if is_bindgen {
            return Some(
                "a crate of the project needs a browser (wasm-bindgen). Find it with\n  \
                 cargo tree --target wasm32-unknown-unknown --invert wasm-bindgen\nand turn the feature off: \
                 chrono without `wasmbind`, getrandom without `js` or `wasm_js`, uuid without `js`. Time and random bytes come from the SDK"
                    .to_owned(),
            );
        }
        match (module, self.language) {
            ("gojs" | "go", _) => Some(format!("this was built for the browser (GOOS=js); {GO_BUILD}")),
            ("wasi_unstable", _) => Some("it was built with a compiler from before 2020; use a newer one, whose WASI is wasi_snapshot_preview1".to_owned()),
            ("duebox_v1", _) => Some(self.unknown_call(name)),
            (module, _) if module.starts_with("wasi:") => Some(
                "it needs WASI preview 2, and a handler is a core module: build it for wasm32-unknown-unknown or wasip1".to_owned(),
            ),
            ("env", Some(AssemblyScript)) => Some(format!(
                "there is no `declare function {name}` in the host: remove it, or import what you need from \"duebox-as/assembly\". (`abort`, `trace` \
                 and `seed` of AssemblyScript are there; no --use option is needed.)"
            )),
            (_, Some(AssemblyScript)) => Some(format!(
                "the source has a `declare function {name}` that only a host with {module} has: remove it, or import what you need from \"duebox-as/assembly\""
            )),
            ("env", Some(Rust | C)) => Some(format!(
                "`{name}` was declared and linked nowhere: a library is missing from the build, or it needs an operating system. Link it, or use what \
                 needs no C library{}",
                if self.language == Some(C) { "; without --allow-undefined the linker names the place" } else { "" }
            )),
            _ => None,
        }
    }

    /// The remedy for a function that `duebox_v1` does not have.
    fn unknown_call(&self, name: &str) -> String {
        const CALLS: [&str; 17] = [
            "payload_read",
            "meta_read",
            "meta_int",
            "config_read",
            "random",
            "retry_after",
            "snooze",
            "reason",
            "result",
            "log",
            "http_send",
            "http_read",
            "kv_get",
            "kv_set",
            "kv_delete",
            "kv_add",
            "push",
        ];
        let meant = nearest(name, CALLS.into_iter()).map(|like| format!("did you mean {like}? "));
        let meant = meant.unwrap_or_default();
        format!(
            "{meant}https://github.com/duebox/duebox/blob/main/docs/reference/abi.md lists the functions of duebox_v1. If yours is newer than this duebox {}, install a newer one",
            env!("CARGO_PKG_VERSION")
        )
    }

    fn memory64(&self) -> Option<String> {
        Some(match self.language? {
            Rust => format!("it was built for wasm64-unknown-unknown; {RUST_BUILD}"),
            C => format!("it was built with --target=wasm64; {C_BUILD}"),
            HandlerLanguage::Wat => {
                "write (memory 1) instead of (memory i64 1), and i32 for addresses".to_owned()
            }
            _ => return None,
        })
    }

    fn memory(&self) -> Option<String> {
        let is_shared = matches!(self.error, LoadError::SharedMemory);
        Some(match (self.language?, is_shared) {
            (Rust, true) => format!(
                "remove -C target-feature=+atomics from RUSTFLAGS and .cargo/config.toml; {RUST_BUILD}"
            ),
            (Rust, false) => format!(
                "remove -C link-arg=--import-memory from RUSTFLAGS and .cargo/config.toml; {RUST_BUILD}"
            ),
            (C, true) => format!("remove -pthread, -matomics and --shared-memory; {C_BUILD}"),
            (C, false) => format!("remove -Wl,--import-memory; {C_BUILD}"),
            (AssemblyScript, true) => format!(
                "remove `sharedMemory` and the feature `threads` from asconfig.json; {ASSEMBLYSCRIPT_BUILD}"
            ),
            (AssemblyScript, false) => {
                format!("remove `importMemory` from asconfig.json; {ASSEMBLYSCRIPT_BUILD}")
            }
            _ => return None,
        })
    }

    fn too_large(&self) -> String {
        let debug = self.outline.map_or(0, ModuleOutline::debug_bytes);
        let strip = match self.language {
            Some(Rust) => {
                "set strip = \"debuginfo\", lto = \"fat\" and opt-level = \"s\" under [profile.release] in Cargo.toml"
            }
            Some(Go) => {
                "build with -trimpath -ldflags=-w, as `duebox build` does, and import fewer packages"
            }
            Some(C) => "build with -O2 and without -g",
            _ => "build it smaller, without debug information",
        };
        let debug = if debug == 0 {
            String::new()
        } else {
            format!("{debug} bytes are debug information, which `duebox build` removes: ")
        };
        format!(
            "{debug}{strip}; or raise the limit: module = \"64MiB\" under [topics.NAME.sandbox] in duebox.toml"
        )
    }
}

/// What to do about a program of Rust.
fn rust_program() -> String {
    format!(
        "this is a program with a `main`, and a handler is a library. Move src/main.rs to src/lib.rs, call \
         duebox_sdk::handler!(handle) in it, and add to Cargo.toml:\n  [lib]\n  crate-type = [\"cdylib\"]\n{RUST_BUILD}"
    )
}
