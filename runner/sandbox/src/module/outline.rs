//! The outline of a module's file: what it imports and exports, how large its parts are, and what made it. It is read
//! from any file that the parser understands, also from one that no topic may load.

use wasmparser::{
    BinaryReaderError, CompositeInnerType, ExternalKind, FuncType, KnownCustom, Parser, Payload,
    ProducersSectionReader, TypeRef,
};

use super::capabilities::Capability;
use super::compile::to_binary;
use super::debug_sections::is_debug;
use crate::imports::wasi;
use crate::limits::Limits;

/// How many imports, exports and producers an outline lists.
const LISTED_MAX: usize = 1_000;
/// How many origins an outline lists, and the longest one.
const ORIGINS_MAX: usize = 8;
const ORIGIN_MAX: usize = 100;
/// What compilers leave in a component, whose modules are not read: their names in lists of producers.
const COMPONENT_MARKS: [(&str, &str); 6] = [
    ("componentize-js", "JavaScript"),
    ("StarlingMonkey", "JavaScript"),
    ("componentize-py", "Python"),
    ("TinyGo", "Go"),
    ("rustc", "Rust"),
    ("clang", "C11"),
];
/// What compilers that list no producers leave in a module: the names of their functions and sections.
const MODULE_MARKS: [(&str, &str); 2] = [("~lib/rt/", "AssemblyScript"), ("go:buildid", "Go")];

/// The outline of a module's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleOutline {
    /// Whether it is a component instead of a core module.
    pub is_component: bool,
    /// Its imports, at most 1,000.
    pub imports: Vec<OutlineImport>,
    /// Its exports, at most 1,000.
    pub exports: Vec<OutlineExport>,
    /// Its sections in their order.
    pub sections: Vec<OutlineSection>,
    /// What its `producers` section names, those of modules inside a component included.
    pub producers: Vec<Producer>,
    /// The origins of URLs in its data, at most 8.
    pub origins: Vec<String>,
}

/// An import of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineImport {
    /// The namespace.
    pub module: String,
    /// The name.
    pub name: String,
    /// The type, such as `(i32) -> i32`, or its kind.
    pub ty: String,
}

/// An export of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineExport {
    /// The name.
    pub name: String,
    /// The type of a function, such as `(i32) -> i32`, or its kind.
    pub ty: String,
}

/// A section of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineSection {
    /// The kind of the section, or the name of a custom one in quotes.
    pub name: String,
    /// Its size in bytes.
    pub bytes: usize,
}

/// An entry of a `producers` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// `language`, `processed-by` or `sdk`.
    pub field: String,
    /// The name of the language or tool.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl ModuleOutline {
    /// Reads the outline of a binary or text module; `None` if it does not parse.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let limits = Limits { module: usize::MAX, ..Limits::default() };
        let binary = to_binary(bytes, &limits).ok()?;
        if Parser::is_component(&binary) {
            let producers = guess(&binary, &COMPONENT_MARKS);
            return Some(Self { is_component: true, producers, ..Self::default() });
        }
        let mut reader = OutlineReader::default();
        for payload in Parser::new(0).parse_all(&binary) {
            reader.add(&payload.ok()?).ok()?;
        }
        let mut outline = reader.outline;
        if outline.producers.is_empty() {
            outline.producers = guess(&binary, &MODULE_MARKS);
        }
        Some(outline)
    }

    /// The capabilities that its imports need, each once.
    pub fn capabilities(&self) -> Vec<Capability> {
        let needed = |import: &OutlineImport| Capability::of_import(&import.module, &import.name);
        let mut capabilities: Vec<Capability> = self.imports.iter().filter_map(needed).collect();
        capabilities.sort();
        capabilities.dedup();
        capabilities
    }

    /// Whether it imports functions of WASI preview 1.
    pub fn imports_wasi(&self) -> bool {
        self.imports.iter().any(|import| import.module == wasi::NAMESPACE)
    }

    /// The bytes of its debug sections.
    pub fn debug_bytes(&self) -> usize {
        let is_debug = |section: &&OutlineSection| is_debug(section.name.trim_matches('"'));
        self.sections.iter().filter(is_debug).map(|section| section.bytes).sum()
    }
}

/// The language of the first mark that a file contains.
fn guess(binary: &[u8], marks: &[(&str, &str)]) -> Vec<Producer> {
    let found = marks.iter().find(|(mark, _)| contains(binary, mark.as_bytes()));
    let producer = |name: &str| Producer {
        field: "language".to_owned(),
        name: name.to_owned(),
        version: String::new(),
    };
    found.map(|(_, name)| producer(name)).into_iter().collect()
}

/// Whether bytes contain others.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// What has been read of a file.
#[derive(Default)]
struct OutlineReader {
    outline: ModuleOutline,
    types: Vec<String>,
    /// The type of each function, imported ones first.
    functions: Vec<u32>,
}

impl OutlineReader {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        self.add_section(payload);
        match payload {
            Payload::CustomSection(section) => {
                if let KnownCustom::Producers(producers) = section.as_known() {
                    self.add_producers(producers)?;
                }
            }
            Payload::TypeSection(section) => {
                for group in section.clone() {
                    self.types.extend(group?.types().map(|ty| describe(&ty.composite_type.inner)));
                }
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    let import = import?;
                    let ty = self.import_type(import.ty);
                    let (module, name) = (import.module.to_owned(), import.name.to_owned());
                    push(&mut self.outline.imports, OutlineImport { module, name, ty });
                }
            }
            Payload::FunctionSection(section) => {
                for function in section.clone() {
                    self.functions.push(function?);
                }
            }
            Payload::ExportSection(section) => {
                for export in section.clone() {
                    let export = export?;
                    let ty = self.export_type(export.kind, export.index);
                    push(
                        &mut self.outline.exports,
                        OutlineExport { name: export.name.to_owned(), ty },
                    );
                }
            }
            Payload::DataSection(section) => {
                for data in section.clone() {
                    self.outline.add_origins(data?.data);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_section(&mut self, payload: &Payload<'_>) {
        let Some((id, range)) = payload.as_section() else { return };
        let name = match payload {
            Payload::CustomSection(section) => format!("{:?}", section.name()),
            _ => SECTIONS.get(usize::from(id)).copied().unwrap_or("other").to_owned(),
        };
        push(&mut self.outline.sections, OutlineSection { name, bytes: range.len() });
    }

    fn add_producers(
        &mut self,
        producers: ProducersSectionReader<'_>,
    ) -> Result<(), BinaryReaderError> {
        for field in producers {
            let field = field?;
            for value in field.values {
                let value = value?;
                let (name, version) = (value.name.to_owned(), value.version.to_owned());
                let producer = Producer { field: field.name.to_owned(), name, version };
                if !self.outline.producers.contains(&producer) {
                    push(&mut self.outline.producers, producer);
                }
            }
        }
        Ok(())
    }

    fn import_type(&mut self, ty: TypeRef) -> String {
        match ty {
            TypeRef::Func(index) | TypeRef::FuncExact(index) => {
                self.functions.push(index);
                self.function_type(index)
            }
            TypeRef::Memory(_) => "memory".to_owned(),
            TypeRef::Table(_) => "table".to_owned(),
            TypeRef::Global(_) => "global".to_owned(),
            TypeRef::Tag(_) => "tag".to_owned(),
        }
    }

    fn export_type(&self, kind: ExternalKind, index: u32) -> String {
        match kind {
            ExternalKind::Func | ExternalKind::FuncExact => {
                let ty = self.functions.get(index as usize);
                ty.map_or_else(|| "function".to_owned(), |ty| self.function_type(*ty))
            }
            ExternalKind::Memory => "memory".to_owned(),
            ExternalKind::Table => "table".to_owned(),
            ExternalKind::Global => "global".to_owned(),
            ExternalKind::Tag => "tag".to_owned(),
        }
    }

    fn function_type(&self, index: u32) -> String {
        self.types.get(index as usize).cloned().unwrap_or_else(|| "function".to_owned())
    }
}

/// The names of sections by their ids.
const SECTIONS: [&str; 14] = [
    "custom",
    "types",
    "imports",
    "functions",
    "tables",
    "memory",
    "globals",
    "exports",
    "start",
    "elements",
    "code",
    "data",
    "data count",
    "tags",
];

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < LISTED_MAX {
        list.push(item);
    }
}

fn describe(ty: &CompositeInnerType) -> String {
    match ty {
        CompositeInnerType::Func(ty) => function(ty),
        _ => "another type".to_owned(),
    }
}

fn function(ty: &FuncType) -> String {
    let list = |types: &[wasmparser::ValType]| {
        types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    match ty.results() {
        [] => format!("({})", list(ty.params())),
        [one] => format!("({}) -> {one}", list(ty.params())),
        more => format!("({}) -> ({})", list(ty.params()), list(more)),
    }
}

impl ModuleOutline {
    /// Adds the origins of URLs in some bytes.
    fn add_origins(&mut self, data: &[u8]) {
        for scheme in ["https://", "http://"] {
            let found = data.windows(scheme.len()).enumerate();
            let starts = found.filter(|(_, window)| *window == scheme.as_bytes()).map(|(at, _)| at);
            for start in starts {
                let rest = &data[start + scheme.len()..];
                let is_host = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-:".contains(byte);
                let host: Vec<u8> =
                    rest.iter().take(ORIGIN_MAX).take_while(is_host).copied().collect();
                let host = String::from_utf8(host).unwrap_or_default();
                let origin = format!("{scheme}{}", host.trim_end_matches(['.', ':', '-']));
                let is_name = host.contains('.') || host.starts_with("localhost");
                if is_name && self.origins.len() < ORIGINS_MAX && !self.origins.contains(&origin) {
                    self.origins.push(origin);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"(module
        (@producers (language "Rust" "2024") (processed-by "rustc" "1.95.0"))
        (import "duebox_v1" "http_send" (func (param i32 i32 i32 i32 i32) (result i32)))
        (import "duebox_v1" "kv_get" (func (param i32 i32 i32 i32) (result i32)))
        (import "duebox_v1" "kv_add" (func (param i32 i32 i64 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "GET https://api.example.com/v1/rate\n http://nowhere/ https://api.example.com")
        (func (export "handle") (param i32) (result i32) (i32.const 0))
        (@custom ".debug_info" "0123456789")
        (@custom "mine" "x"))"#;

    fn outline(text: &str) -> ModuleOutline {
        ModuleOutline::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_module_tells_what_it_needs() {
        let outline = outline(TEXT);
        assert_eq!(outline.capabilities(), [Capability::Http, Capability::Kv]);
        assert_eq!(outline.origins, ["https://api.example.com"]);
        assert_eq!(outline.producers[1].name, "rustc");
        let exports = outline.exports.iter().map(|it| (it.name.as_str(), it.ty.as_str()));
        assert_eq!(exports.collect::<Vec<_>>(), [("memory", "memory"), ("handle", "(i32) -> i32")]);
        assert_eq!(outline.imports[2].ty, "(i32, i32, i64, i32) -> i32");
        assert!(outline.debug_bytes() > 10 && !outline.imports_wasi());
    }

    #[test]
    fn components_and_what_does_not_parse() {
        assert!(outline("(component (core module))").is_component);
        assert_eq!(ModuleOutline::read(b"\x7fELF"), None);
        assert_eq!(ModuleOutline::read(b"\0asm\x01\0\0\0\x01\xff"), None);
    }
}
