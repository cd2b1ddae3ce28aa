//! The AssemblyScript SDK's JSON reader compared with serde's: a document changed by one or two
//! bytes is JSON for both or for neither.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module};

/// Names that differ in at least three bytes, so that no change makes two fields the same. The
/// SDK's reader refuses duplicate fields and serde's does not.
const DOCUMENTS: [&str; 4] = [
    r#"{"alpha":"text \" \\ \/ \b \u00e9 é 你 🎉","bravo":-12.5e+1,"canto":[true,false,null]}"#,
    r#"[ 0, -0, 1.25, 2E3, "\ud83c\udf89", {}, [], {"delta":{"euros":[[[1]]]}} ]"#,
    "\t{ \"fifth\" : \"\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}\" ,\r\n \"golf4\" : 90 }\n",
    r#""\u0000\uD800\uDC00\n\t\r\f""#,
];

const CHANGES: &[u8] =
    b"{}[]\",:\\/ \n\t0123456789.-+eEtrufalsnbdDcC\x00\x1f\x7f\x80\xbf\xc0\xc3\xe4\xed\xf0\xf4\xff";

const RUNS: usize = 20_000;

/// A pseudo-random number below `bound`, the same in every run.
fn below(seed: &mut u64, bound: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap_or(0) % bound
}

fn changed(seed: &mut u64) -> Vec<u8> {
    let mut bytes = DOCUMENTS[below(seed, DOCUMENTS.len())].as_bytes().to_vec();
    for _ in 0..=below(seed, 2) {
        let at = below(seed, bytes.len());
        let byte = CHANGES[below(seed, CHANGES.len())];
        match below(seed, 4) {
            0 => bytes.insert(at, byte),
            1 => drop(bytes.remove(at)),
            2 => bytes.truncate(at + 1),
            _ => bytes[at] = byte,
        }
    }
    bytes
}

#[test]
fn serde_and_assemblyscript_agree_on_what_is_json() {
    let module = Module::built("echo-as", BTreeMap::new());
    let (mut seed, mut json, mut other) = (42, 0, 0);
    for _ in 0..RUNS {
        let payload = changed(&mut seed);
        let value = serde_json::from_slice::<serde_json::Value>(&payload);
        if value.as_ref().is_err_and(|error| error.to_string().contains("out of range")) {
            continue; // a limit of serde's numbers, not of the grammar
        }
        let mut job = Attempt::new(payload);
        job.headers.insert("script".to_owned(), "syntax".to_owned());
        let run = module.run(&job);
        let shown = String::from_utf8_lossy(&job.payload);
        assert_eq!(run.lines, [format!("info syntax {}", value.is_ok())], "{shown}: {value:?}");
        *if value.is_ok() { &mut json } else { &mut other } += 1;
    }
    assert!(json > RUNS / 20 && other > RUNS / 20, "{json} were JSON and {other} were not");
}
