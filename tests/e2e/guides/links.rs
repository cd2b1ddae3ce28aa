//! Links between pages lead to a file of the repository and, if they name one, to one of its headings. Each row
//! of the threat model names tests that exist, and so does the page about tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Folders whose content is built or stored.
const SKIPPED: [&str; 4] = ["target", "node_modules", "build", "data"];

/// Adds the files with an extension below a folder, except hidden folders.
fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_skipped = name.starts_with('.') || SKIPPED.contains(&name.as_str());
        if path.is_dir() && !path.is_symlink() && !is_skipped {
            collect(&path, extension, files);
        } else if name.ends_with(extension) {
            files.push(path);
        }
    }
}

/// The lines of a page outside its code blocks.
fn prose(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let outside = text.split("\n```").step_by(2);
    outside.flat_map(str::lines).map(str::to_owned).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(page: &Path) -> BTreeSet<String> {
    let is_kept = |c: &char| c.is_alphanumeric() || ['-', '_', ' '].contains(c);
    let anchor = |heading: &str| -> String {
        let kept: String = heading.trim().to_lowercase().chars().filter(is_kept).collect();
        kept.replace(' ', "-")
    };
    let lines = prose(page).into_iter();
    lines.filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_matches('#'))).collect()
}

/// The problem of a link, if any.
fn fault(page: &Path, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let is_found = target.exists() && (anchor.is_empty() || anchors(&target).contains(anchor));
    (!is_found).then(|| format!("{}: {link}", page.display()))
}

#[test]
fn every_link_between_pages_is_valid() {
    let mut pages = Vec::new();
    collect(Path::new(ROOT), ".md", &mut pages);
    let mut links = 0;
    let mut faults = Vec::new();
    for page in &pages {
        for line in prose(page) {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            for link in targets.filter(|link| !link.contains("://")) {
                links += 1;
                faults.extend(fault(page, link));
            }
        }
    }
    assert!(links > 100, "only {links} links in {} pages", pages.len());
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_index_of_the_documentation_leads_to_every_page() {
    let docs = Path::new(ROOT).join("docs");
    let mut pages = Vec::new();
    collect(&docs, ".md", &mut pages);
    assert!(pages.len() > 30, "{pages:?}");
    let linked = |index: &Path| -> BTreeSet<PathBuf> {
        let lines = if index.exists() { prose(index) } else { Vec::new() };
        let links = lines.iter().flat_map(|line| line.split("](").skip(1));
        let files = links.filter_map(|rest| rest.split([')', '#']).next());
        files.filter_map(|file| index.parent()?.join(file).canonicalize().ok()).collect()
    };
    let index = docs.join("README.md");
    // The pages of a guide with a folder of its own are in the list of that folder.
    let is_led_to = |page: &PathBuf| {
        let page = page.canonicalize().unwrap();
        page == index.canonicalize().unwrap()
            || linked(&index).contains(&page)
            || linked(&page.parent().unwrap().join("README.md")).contains(&page)
    };
    let forgotten: Vec<_> = pages.iter().filter(|page| !is_led_to(page)).collect();
    assert!(forgotten.is_empty(), "docs/README.md does not lead to {forgotten:?}");
}

/// What of a row of the threat model does not exist: a test by file and function, or a fuzz target.
fn unproven(row: &str, files: &[PathBuf]) -> Vec<String> {
    let is_test = |module: &str, function: &str| {
        let signature = format!("fn {function}(");
        let in_file = files.iter().filter(|file| file.file_stem().unwrap() == module);
        in_file.map(|file| fs::read_to_string(file).unwrap()).any(|text| {
            let found = text.lines().position(|line| line.contains(&signature));
            found.is_some_and(|at| {
                let before: Vec<&str> = text.lines().take(at).collect();
                let mut attributes = before
                    .iter()
                    .rev()
                    .map(|line| line.trim_start())
                    .take_while(|line| line.starts_with("#["));
                attributes.any(|line| line.contains("test"))
            })
        })
    };
    let named: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
    let proof =
        |name: &&&str| name.contains("::") || row.contains(&format!("fuzz target `{name}`"));
    let proofs: Vec<_> = named.iter().filter(proof).collect();
    if proofs.is_empty() {
        return vec![format!("no test: {row}")];
    }
    let exists = |name: &str| match name.split_once("::") {
        Some((module, function)) => is_test(module, function),
        None => Path::new(ROOT).join(format!("fuzz/fuzz_targets/{name}.rs")).exists(),
    };
    proofs.into_iter().filter(|name| !exists(name)).map(|name| (**name).to_owned()).collect()
}

#[test]
fn each_row_of_the_threat_model_names_tests_that_exist() {
    let mut files = Vec::new();
    collect(Path::new(ROOT), ".rs", &mut files);
    let text = fs::read_to_string(Path::new(ROOT).join("SECURITY.md")).unwrap();
    let (_, model) = text.split_once("## Threat model").unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.ends_with("| shown by |");
    let rows: Vec<&str> = model.lines().filter(is_row).collect();
    assert!(rows.len() > 20, "{rows:#?}");
    let unproven: Vec<String> = rows.iter().flat_map(|row| unproven(row, &files)).collect();
    assert!(unproven.is_empty(), "{unproven:#?}");
    assert!(!self::unproven("| a | `links::collect` |", &files).is_empty(), "it is not a test");
    assert!(!self::unproven("| a | it holds |", &files).is_empty());
    assert!(!self::unproven("| a | fuzz target `none` |", &files).is_empty());
}

#[test]
fn every_test_that_the_page_about_tests_names_exists() {
    let mut files = Vec::new();
    collect(Path::new(ROOT), ".rs", &mut files);
    let text = fs::read_to_string(Path::new(ROOT).join("docs/internals/queue-tests.md")).unwrap();
    let named: Vec<(&str, &str)> =
        text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
    assert!(named.len() > 40, "{named:?}");
    find_all(&files, &named);
}

#[test]
fn each_finding_of_the_page_about_faults_names_tests_that_exist() {
    let mut files = Vec::new();
    collect(Path::new(ROOT), ".rs", &mut files);
    let text = fs::read_to_string(Path::new(ROOT).join("docs/internals/faults.md")).unwrap();
    let (findings, _) = text.split_once("## Bulk instructions").unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| finding |");
    let rows: Vec<&str> = findings.lines().filter(is_row).collect();
    let is_there = |number: u32| rows.iter().any(|row| row.starts_with(&format!("| {number}. ")));
    let missing: Vec<u32> = (1..=29).filter(|number| !is_there(*number)).collect();
    assert!(missing.is_empty(), "the findings {missing:?} are missing");
    let unproven: Vec<String> = rows.iter().flat_map(|row| unproven(row, &files)).collect();
    assert!(unproven.is_empty(), "{unproven:#?}");
}

/// Fails unless each of these tests exists, by the name of its file and its own.
fn find_all(files: &[PathBuf], named: &[(&str, &str)]) {
    let exists = |(module, test): &(&str, &str)| {
        let in_file = files.iter().filter(|file| file.file_stem().unwrap() == *module);
        let function = format!("fn {test}(");
        in_file.into_iter().any(|file| fs::read_to_string(file).unwrap().contains(&function))
    };
    let missing: Vec<_> = named.iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_path_that_the_map_of_the_code_names_exists() {
    let root = Path::new(ROOT);
    let map = prose(&root.join("ARCHITECTURE.md"));
    let words = map.iter().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_path = |word: &&str| {
        let roots = ["runner/", "docs/", "sdk/", "tests/", "bench/"];
        roots.iter().any(|root| word.starts_with(root)) && !word.contains(' ')
    };
    let paths: Vec<&str> = words.filter(is_path).collect();
    assert!(paths.len() > 40, "{} paths were found", paths.len());
    let missing: Vec<&&str> = paths.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:?}");
}

/// Where the pages are for someone who has only the binary.
const SITE: &str = "https://github.com/duebox/duebox/blob/main/";

/// The lines of a source that are part of the binary.
fn shipped_lines(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).unwrap();
    let shipped = text.split("#[cfg(test)]").next().unwrap();
    let lines = shipped.lines().map(str::trim_start);
    lines.filter(|line| !line.starts_with("//")).map(str::to_owned).collect()
}

#[test]
fn what_the_binary_says_names_pages_by_their_address() {
    let mut sources = Vec::new();
    for folder in ["src", "job/src", "queue/src", "sandbox/src"] {
        collect(&Path::new(ROOT).join("runner").join(folder), ".rs", &mut sources);
    }
    // A test from its first line on.
    sources.retain(|source| !source.ends_with("cli/reference.rs"));
    let (mut named, mut faults) = (0, Vec::new());
    for source in &sources {
        for line in shipped_lines(source) {
            for (at, _) in line.match_indices("docs/") {
                let page = line[at..].split(|c: char| !(c.is_alphanumeric() || "/-_.".contains(c)));
                let page = page.into_iter().next().unwrap().trim_end_matches('.');
                named += 1;
                if !(line[..at].ends_with(SITE) && Path::new(ROOT).join(page).is_file()) {
                    faults.push(format!("{}: {line}", source.display()));
                }
            }
        }
    }
    assert!(named > 10, "only {named} pages are named");
    assert!(faults.is_empty(), "{faults:#?}");
}
