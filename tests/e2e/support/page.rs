//! A page of the documentation, whose code blocks a test runs as they stand there.

use std::fs;
use std::path::Path;

/// The text of a page, or of a part of it.
pub(crate) struct Page(String);

impl Page {
    /// Reads a page, by its path in the repository.
    pub(crate) fn read(path: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        Self(
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    }

    /// The part under a heading, such as `## By Redis`, up to the next heading of its level.
    pub(crate) fn part(&self, heading: &str) -> Self {
        let (level, _) = heading.split_once(' ').unwrap();
        let (_, rest) = self.0.split_once(&format!("\n{heading}\n")).expect(heading);
        let end = rest.find(&format!("\n{level} ")).unwrap_or(rest.len());
        Self(rest[..end].to_owned())
    }

    /// Its code blocks, each with its language.
    pub(crate) fn programs(&self) -> Vec<(&str, &str)> {
        let blocks = self.0.split("\n```").skip(1).step_by(2);
        blocks.map(|block| block.split_once('\n').unwrap()).collect()
    }

    /// Its code blocks in one language.
    pub(crate) fn blocks(&self, language: &str) -> Vec<&str> {
        let programs = self.programs().into_iter();
        programs.filter(|(name, _)| *name == language).map(|(_, code)| code).collect()
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}
