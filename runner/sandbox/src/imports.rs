//! What a handler can import. Each import is a file here, which owns the state that it needs.
//!
//! An import is generic over the state of a guest: a trait names the parts that it uses, and the guest
//! (`instance::guest`) implements these traits. So no import knows the guest, and only
//! this file knows all imports.

pub(crate) mod abi;
pub(crate) mod assemblyscript;
mod blocks;
pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod http;
pub(crate) mod intercept;
pub(crate) mod io;
pub(crate) mod job;
pub(crate) mod kv;
pub(crate) mod log;
pub(crate) mod output;
mod pieces;
pub(crate) mod push;
pub(crate) mod services;
pub(crate) mod spans;
mod stdio;
pub(crate) mod text;
mod trace_context;
pub(crate) mod wasi;

use wasmtime::Linker;

use self::assemblyscript::HasInstanceClock;
use self::http::HasHttp;
use self::kv::HasKv;
use self::output::HasOutput;
use self::push::HasFollowUps;
use self::wasi::HasWasi;

/// Links every import.
pub(crate) fn link<T>(linker: &mut Linker<T>) -> wasmtime::Result<()>
where
    T: HasOutput + HasFollowUps + HasHttp + HasKv + HasWasi + HasInstanceClock,
{
    job::link(linker)?;
    output::link(linker)?;
    log::link(linker)?;
    push::link(linker)?;
    http::link(linker)?;
    kv::link(linker)?;
    assemblyscript::link(linker)?;
    wasi::link(linker)
}

/// The imports of the ABI, and whether each takes a pointer.
const ABI: [&[(&str, bool)]; 6] =
    [&job::IMPORTS, &output::IMPORTS, &log::IMPORTS, &push::IMPORTS, &http::IMPORTS, &kv::IMPORTS];

/// Whether an import takes a pointer. `None` if the import does not exist. The names of WASI are checked by
/// the linker instead.
pub(crate) fn takes_pointer(module: &str, name: &str) -> Option<bool> {
    let find = |imports: &[(&str, bool)]| {
        imports.iter().find(|(known, _)| *known == name).map(|(_, pointer)| *pointer)
    };
    match module {
        abi::NAMESPACE => ABI.into_iter().find_map(find),
        assemblyscript::NAMESPACE => find(&assemblyscript::IMPORTS),
        wasi::NAMESPACE => Some(name != wasi::PROC_EXIT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wasmtime::Module;

    use super::{ABI, abi};
    use crate::engine::EngineKind;
    use crate::module::engine_context::EngineContext;

    /// The type of an import as docs/reference/abi.md writes it: `(dst, off, len) -> i32`, `(key, dst, cap) =n`.
    fn type_of(signature: &str) -> String {
        let (parameters, rest) = signature.split_once(')').unwrap();
        let types = parameters.split(',').map(|parameter| match parameter.split_once(':') {
            Some((_, written)) => written.trim(),
            None => "i32",
        });
        let types: Vec<&str> = types.collect();
        let result = match rest.trim().split_once("-> ") {
            Some((_, written)) => format!(" (result {written})"),
            None if rest.trim() == "=n" => " (result i32)".to_owned(),
            None => String::new(),
        };
        format!("(param {}){result}", types.join(" "))
    }

    /// The imports that the reference lists, with their types.
    fn listed() -> BTreeMap<&'static str, String> {
        let page = include_str!("../../../docs/reference/abi.md");
        let (_, part) = page.split_once("\n## Imports\n").unwrap();
        let part = part.split("\n#").next().unwrap();
        let rows = part.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        rows.map(|(call, _)| call.split_once('(').unwrap())
            .map(|(name, signature)| (name, type_of(signature)))
            .collect()
    }

    #[test]
    fn the_reference_lists_each_import_with_its_type() {
        let listed = listed();
        let mut known: Vec<&str> = ABI.into_iter().flatten().map(|(name, _)| *name).collect();
        known.sort_unstable();
        assert_eq!(known, listed.keys().copied().collect::<Vec<_>>());
        let kind = EngineKind { counts_fuel: false, resets_instances: false };
        let context = EngineContext::on_demand(kind).unwrap();
        for (name, written) in listed {
            let namespace = abi::NAMESPACE;
            let module = format!("(module (import \"{namespace}\" \"{name}\" (func {written})))");
            let module = Module::new(&context.engine, module).unwrap();
            let linked = context.link(&module);
            assert!(
                linked.is_ok(),
                "docs/reference/abi.md has {name} as {written}: {:?}",
                linked.err()
            );
        }
    }
}
