//! The `package.json` of a package in `node_modules`: which file an import of it means.

use std::path::Path;

use serde_json::{Map, Value};

use super::resolve::Wanted;
use crate::regular_file;

/// The longest `package.json` that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// Conditions of `exports` that hold for an import, best first.
const IMPORTED: [&str; 4] = ["import", "module", "require", "default"];
/// The same for a call of `require`.
const REQUIRED: [&str; 2] = ["require", "default"];
/// How deep conditions may be nested.
const DEPTH_MAX: usize = 8;

/// The name of the package of an import, and the path in it.
pub(super) fn split(specifier: &str) -> (&str, &str) {
    let slashes = if specifier.starts_with('@') { 2 } else { 1 };
    match specifier.match_indices('/').nth(slashes - 1) {
        Some((at, _)) => (&specifier[..at], &specifier[at + 1..]),
        None => (specifier, ""),
    }
}

/// The file that a path in a package means, relative to its folder.
pub(super) fn entry(manifest: &Path, subpath: &str, wanted: Wanted) -> Result<String, String> {
    let invalid =
        |error: &dyn std::fmt::Display| format!("{} is invalid: {error}", manifest.display());
    let bytes = regular_file::read(manifest, BYTES_MAX).map_err(|error| invalid(&error))?;
    let package: Map<String, Value> =
        serde_json::from_slice(&bytes).map_err(|error| invalid(&error))?;
    if let Some(exports) = package.get("exports") {
        let path = if subpath.is_empty() { ".".to_owned() } else { format!("./{subpath}") };
        return exported(exports, &path, wanted)
            .ok_or_else(|| format!("the package exports no {path} that needs no Node"));
    }
    if !subpath.is_empty() {
        return Ok(subpath.to_owned());
    }
    let named = |key: &str| package.get(key).and_then(Value::as_str);
    let module = named("module").filter(|_| wanted == Wanted::Import);
    Ok(module.or_else(|| named("main")).unwrap_or("index.js").to_owned())
}

fn exported(exports: &Value, path: &str, wanted: Wanted) -> Option<String> {
    match exports {
        Value::Object(paths) if paths.keys().any(|key| key.starts_with('.')) => {
            if let Some(target) = paths.get(path) {
                return target_of(target, wanted, DEPTH_MAX);
            }
            paths.iter().find_map(|(pattern, target)| {
                let (before, after) = pattern.split_once('*')?;
                let part = path.strip_prefix(before)?.strip_suffix(after)?;
                Some(target_of(target, wanted, DEPTH_MAX)?.replace('*', part))
            })
        }
        target if path == "." => target_of(target, wanted, DEPTH_MAX),
        _ => None,
    }
}

fn target_of(target: &Value, wanted: Wanted, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let conditions = match wanted {
        Wanted::Import => &IMPORTED[..],
        Wanted::Require => &REQUIRED[..],
    };
    match target {
        Value::String(path) => Some(path.clone()),
        Value::Array(all) => all.iter().find_map(|target| target_of(target, wanted, depth)),
        Value::Object(targets) => {
            let holds = conditions.iter().filter_map(|condition| targets.get(*condition));
            holds.into_iter().find_map(|target| target_of(target, wanted, depth))
        }
        _ => None,
    }
}
