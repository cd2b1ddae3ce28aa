//! Files of recorded HTTP: `duebox invoke --record DIR` writes one for each request, `--http DIR` reads them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toml_edit::{ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use crate::cli::support::failure::Failure;
use crate::manifest::{Environment, Exchange, Flags, RecordedResponse, load_exchanges};
use crate::observe::redaction::Redaction;

/// The most files of a folder.
const FILES_MAX: usize = 10_000;
/// How much of a URL a file's name shows, in characters.
const NAME_CHARS: usize = 80;

/// Reads every `*.toml` file of a folder, in the order of their names.
///
/// # Errors
/// A [`Failure`] of bad input if the folder or a file cannot be read.
pub(super) fn read(dir: &Path, redaction: &Redaction) -> Result<Vec<Exchange>, Failure> {
    let unreadable = |error: io::Error| {
        let message = format!("the folder {} cannot be read: {error}", dir.display());
        Failure::bad_input(message, "name a folder that --record has written")
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)?.take(FILES_MAX) {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    let environment = Environment::of_process(Flags::default());
    let mut exchanges = Vec::new();
    for file in files {
        let read = load_exchanges(&file, &environment)?;
        exchanges.extend(read.into_iter().map(|exchange| restored(exchange, redaction)));
    }
    Ok(exchanges)
}

fn restored(exchange: Exchange, redaction: &Redaction) -> Exchange {
    let bytes = |bytes: bytes::Bytes| redaction.restore(&bytes).into_owned().into();
    let response = exchange.response.map(|response| RecordedResponse {
        status: response.status,
        headers: response
            .headers
            .into_iter()
            .map(|(name, value)| (name, redaction.restore_text(&value)))
            .collect(),
        body: bytes(response.body),
    });
    Exchange {
        method: exchange.method,
        url: redaction.restore_text(&exchange.url),
        sent: exchange.sent.map(bytes),
        response,
    }
}

/// Writes each exchange to a file of its own, which does not replace another.
///
/// # Errors
/// A [`Failure`] if a file cannot be written.
pub(super) fn write(
    dir: &Path,
    exchanges: &[Exchange],
    redaction: &Redaction,
) -> Result<(), Failure> {
    let mut number = 1;
    for exchange in exchanges {
        let text = render(exchange, redaction);
        let name = file_name(exchange, redaction);
        loop {
            let path = dir.join(format!("{number:03}-{name}.toml"));
            number += 1;
            match fs::File::create_new(&path) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(unwritable(&path, &error)),
            }
            fs::write(&path, &text).map_err(|error| unwritable(&path, &error))?;
            break;
        }
    }
    Ok(())
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    Failure::failed(message, "name a folder that this user can write")
}

fn file_name(exchange: &Exchange, redaction: &Redaction) -> String {
    let url = redaction.redact_text(&exchange.url);
    let place = url.split_once("://").map_or(url.as_str(), |(_, place)| place);
    let place = place.split(['?', '#']).next().unwrap_or_default();
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = place.chars().take(NAME_CHARS).map(safe).collect();
    format!("{}-{}", exchange.method, name.trim_end_matches('-'))
}

/// An exchange as TOML. A dollar sign is doubled, because the files have variables like a manifest.
fn render(exchange: &Exchange, redaction: &Redaction) -> String {
    let text = |text: &str| value(redaction.redact_text(text).replace('$', "$$"));
    let mut table = Table::new();
    table.insert("method", text(&exchange.method));
    table.insert("url", text(&exchange.url));
    let insert_bytes = |table: &mut Table, key: &str, bytes: &[u8]| {
        let bytes = redaction.redact(bytes);
        match std::str::from_utf8(&bytes) {
            Ok(text) => table.insert(key, value(text.replace('$', "$$"))),
            Err(_) => table.insert(&format!("{key}_base64"), value(STANDARD.encode(&bytes))),
        };
    };
    if let Some(sent) = &exchange.sent {
        insert_bytes(&mut table, "sent", sent);
    }
    match &exchange.response {
        Err(failure) => {
            table.insert("error", value(failure.word()));
        }
        Ok(response) => {
            table.insert("status", value(i64::from(response.status)));
            let mut headers = InlineTable::new();
            for (name, header) in &response.headers {
                let shown = match name.as_str() {
                    "set-cookie" => "[not recorded]".to_owned(),
                    _ => redaction.redact_text(header).replace('$', "$$"),
                };
                headers.insert(name, shown.into());
            }
            if !headers.is_empty() {
                table.insert("headers", value(headers));
            }
            insert_bytes(&mut table, "body", &response.body);
        }
    }
    let mut tables = ArrayOfTables::new();
    tables.push(table);
    let mut document = DocumentMut::new();
    document.insert("http", Item::ArrayOfTables(tables));
    document.to_string()
}
