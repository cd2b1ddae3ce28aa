//! Where a payload comes from: the command line, a file or stdin. Reads are bounded by the topic's
//! limit, so a large input does not fill the memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use bytes::Bytes;
use bytesize::ByteSize;

use super::failure::Failure;

/// Where a payload comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Empty,
    Text(String),
    File(PathBuf),
    Stdin,
}

impl Source {
    /// Parses `PAYLOAD|@FILE|-`; absent means an empty payload.
    pub(crate) fn new(text: Option<String>) -> Self {
        match text {
            None => Self::Empty,
            Some(text) if text == "-" => Self::Stdin,
            Some(text) => match text.strip_prefix('@') {
                Some(path) => Self::File(PathBuf::from(path)),
                None => Self::Text(text),
            },
        }
    }

    /// Where `--lines` come from: stdin, if nothing is named.
    pub(crate) fn of_lines(self) -> Self {
        match self {
            Self::Empty => Self::Stdin,
            named => named,
        }
    }

    /// Reads the whole payload, at most `max` bytes.
    pub(crate) fn read(&self, max: usize) -> Result<Bytes, Failure> {
        let bytes = match self {
            Self::Empty => Vec::new(),
            Self::Text(text) => text.as_bytes().to_vec(),
            Self::File(_) | Self::Stdin => {
                let mut bytes = Vec::new();
                let limit = max as u64 + 1;
                self.open()?
                    .take(limit)
                    .read_to_end(&mut bytes)
                    .map_err(|error| self.unreadable(&error))?;
                bytes
            }
        };
        if bytes.len() > max {
            return Err(too_long("the payload", max));
        }
        Ok(Bytes::from(bytes))
    }

    /// A reader over the file or stdin; a text is one line.
    pub(crate) fn open(&self) -> Result<Box<dyn BufRead>, Failure> {
        match self {
            Self::Empty => Ok(Box::new(io::empty())),
            Self::Text(text) => Ok(Box::new(io::Cursor::new(text.clone()))),
            Self::Stdin => Ok(Box::new(io::stdin().lock())),
            Self::File(path) => match File::open(path) {
                Ok(file) => Ok(Box::new(BufReader::new(file))),
                Err(error) => Err(self.unreadable(&error)),
            },
        }
    }

    /// The number of bytes to read, if known.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::File(path) => path.metadata().ok().filter(|m| m.is_file()).map(|m| m.len()),
            _ => None,
        }
    }

    pub(crate) fn unreadable(&self, error: &io::Error) -> Failure {
        match self {
            Self::File(path) => Failure::bad_input(
                format!("the payload file {} cannot be read: {error}", path.display()),
                "name a readable file after the @; pass a payload that starts with @ on stdin with -",
            ),
            _ => Failure::bad_input(format!("stdin cannot be read: {error}"), "pipe a payload in"),
        }
    }
}

/// The error for a payload over its topic's limit.
pub(crate) fn too_long(what: &str, max: usize) -> Failure {
    let limit = ByteSize(max as u64).display().iec().to_string();
    Failure::bad_input(
        format!("{what} is longer than {limit}, the limit of this topic's payloads"),
        "make it smaller, or raise `payload` in the topic's sandbox",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_selects_the_source() {
        assert_eq!(Source::new(None), Source::Empty);
        assert_eq!(Source::new(Some("{}".into())), Source::Text("{}".into()));
        assert_eq!(Source::new(Some("@a/b".into())), Source::File("a/b".into()));
        assert_eq!(Source::new(Some("-".into())), Source::Stdin);
    }

    #[test]
    fn a_payload_over_the_limit_is_refused() {
        let source = Source::Text("12345".into());
        assert_eq!(source.read(5).unwrap(), "12345");
        assert!(source.read(4).is_err());
    }
}
