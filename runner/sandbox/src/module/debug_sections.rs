//! Removes debug information from a module. The names of functions stay, because the backtrace of a trap needs them.

use wasmparser::{Parser, Payload};

/// Prefixes of the custom sections that hold debug information. The `name` section is not among them.
const DEBUG_PREFIXES: [&str; 3] = [".debug", "reloc.", "external_debug_info"];
/// The bytes before the first section.
const HEADER: usize = 8;

/// A binary module without its debug sections; `None` if it has none, or does not parse.
pub fn without_debug_sections(binary: &[u8]) -> Option<Vec<u8>> {
    if !Parser::is_core_wasm(binary) {
        return None;
    }
    let mut stripped = binary.get(..HEADER)?.to_vec();
    let mut at = HEADER;
    for payload in Parser::new(0).parse_all(binary) {
        let payload = payload.ok()?;
        let Some((_, range)) = payload.as_section() else { continue };
        let is_debug =
            matches!(&payload, Payload::CustomSection(section) if is_debug(section.name()));
        if !is_debug {
            // From the section's header, which begins where the section before ends.
            stripped.extend_from_slice(binary.get(at..range.end)?);
        }
        at = range.end;
    }
    (stripped.len() < binary.len()).then_some(stripped)
}

/// Whether a custom section holds debug information.
pub(super) fn is_debug(name: &str) -> bool {
    DEBUG_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::outline::ModuleOutline;
    use super::*;

    #[test]
    fn debug_sections_are_removed_and_all_others_stay() {
        let text = r#"(module
            (func (export "handle") (param i32) (result i32) (i32.const 0))
            (@custom ".debug_info" "0123456789")
            (@custom "mine" "x"))"#;
        let binary = wat::parse_str(text).unwrap();
        let stripped = without_debug_sections(&binary).unwrap();
        let sections = |binary: &[u8]| ModuleOutline::read(binary).unwrap().sections;
        let (before, after) = (sections(&binary), sections(&stripped));
        let kept = before.iter().filter(|section| !section.name.contains("debug")).cloned();
        assert_eq!(after, kept.collect::<Vec<_>>());
        assert_eq!(after.len() + 1, before.len());
        assert!(wasmparser::validate(&stripped).is_ok());
        assert_eq!(without_debug_sections(&stripped), None);
        assert_eq!(without_debug_sections(b"(module)"), None);
    }
}
