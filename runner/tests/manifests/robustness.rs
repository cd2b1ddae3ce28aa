//! Damaged and unreadable manifests: every text is accepted or refused, without a panic.

use std::path::Path;

use duebox::manifest::{Environment, Manifest};

use crate::{environment, folder};

/// A reload may read a half-written file. Every text must be accepted or refused, without a panic.
#[test]
fn damaged_manifests_are_refused_without_a_panic() {
    let mut random = fastrand::Rng::with_seed(20_261_121);
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let manifests = files.filter(|file| file.extension().is_some_and(|e| e == "toml"));
    let mut refused = 0;
    for text in manifests.map(|file| std::fs::read_to_string(file).unwrap()) {
        for _ in 0..200 {
            let broken = damage(&text, &mut random);
            match Manifest::parse(Path::new("m.toml"), broken, &environment()) {
                Ok(manifest) => assert_eq!(manifest.path, Path::new("m.toml")),
                Err(error) => {
                    refused += 1;
                    assert!(error.to_string().contains("hint: "), "{error}");
                    assert!(error.render(true).contains("error"), "{error}");
                }
            }
        }
    }
    assert!(refused > 1_000, "only {refused} were refused");
}

/// Truncates the text and inserts pieces that have a meaning in TOML.
fn damage(text: &str, random: &mut fastrand::Rng) -> String {
    const PIECES: [&str; 14] =
        ["\"", "'", "[", "]", "{", "}", "=", "\n", "\r\n", "\0", "ä", "\u{feff}", "\"\"\"", "\t💥"];
    let mut chars: Vec<char> = text.chars().collect();
    if random.bool() {
        chars.truncate(random.usize(0..=chars.len()));
    }
    for _ in 0..random.usize(1..=4) {
        let at = random.usize(0..=chars.len());
        let end = (at + random.usize(0..=8)).min(chars.len());
        let piece = PIECES[random.usize(0..PIECES.len())];
        drop(chars.splice(at..end, piece.chars()));
    }
    chars.into_iter().collect()
}

#[test]
fn deep_nesting_is_refused() {
    for opening in ["a = [", "a = {b=", "[a.", "a.b."] {
        let text = format!("[topics.x]\nhandler = \"x\"\n{}", opening.repeat(100_000));
        let refused = Manifest::parse(Path::new("m.toml"), text, &environment()).unwrap_err();
        assert!(refused.to_string().contains("invalid TOML"), "{opening}");
    }
}

#[test]
fn an_unreadable_file_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("duebox.toml");
    let missing = Manifest::load(&path).unwrap_err().to_string();
    assert!(missing.contains("duebox.toml") && missing.contains("--manifest"), "{missing}");
    std::fs::write(&path, [b'a', 0xff, 0xfe]).unwrap();
    let binary = Manifest::load(&path).unwrap_err().to_string();
    assert!(binary.contains("not UTF-8 text: invalid byte at offset 1"), "{binary}");
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(Manifest::load(&path).unwrap_err().to_string().contains("larger than 1 MiB"));
}

#[test]
fn a_problem_has_a_line_and_a_column() {
    let text = "[topics.a]\nhandler = \"ä.wasm\"\nttr = \"0s\"\n".to_owned();
    let refused = Manifest::parse(Path::new("m.toml"), text, &Environment::default()).unwrap_err();
    let problems = refused.problems();
    assert_eq!(problems.len(), 1);
    assert_eq!((problems[0].line, problems[0].column), (Some(3), Some(7)));
}
