//! What goes to stdout: lines, JSON and tables.

use std::io::{self, Write};
use std::process::ExitCode;

use jiff::Timestamp;
use serde::Serialize;

use super::failure::Failure;
use crate::observe::printable;
pub(crate) use crate::observe::printable::one_line;

/// Prints text. Control characters other than line feeds and tabs are escaped, wherever they come from.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", printable::lines(text))
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::of_stdout(&error))
}

/// Prints a line to stderr. A write error is ignored.
pub(crate) fn print_aside(text: &str) {
    writeln!(io::stderr(), "{}", printable::lines(text)).unwrap_or_default();
}

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}

/// A value as one line of JSON. It is ASCII where a terminal would obey a character.
pub(crate) fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map(|text| printable::json(&text)).map_err(|error| {
        Failure::failed(format!("the result cannot be written as JSON: {error}"), "omit --json")
    })
}

/// A unix time in ms as RFC 3339 in UTC.
pub(crate) fn time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| format!("{ms} ms"), |time| time.to_string())
}

/// Prints the cursor of the next page, if there is one.
pub(crate) fn print_next(cursor: Option<&str>) -> Result<ExitCode, Failure> {
    if let Some(cursor) = cursor {
        print(&format!("more: --after '{}'", one_line(cursor)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The first line of a text, at most `max` characters of it; `…` stands for the rest.
pub(crate) fn first_line(text: &str, max: usize) -> String {
    let mut line: String = text.lines().next().unwrap_or_default().chars().take(max).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}

/// Rounds a duration in ms for display: longer durations need no milliseconds.
pub(crate) fn rounded(ms: u64) -> u64 {
    match ms {
        0..10_000 => ms,
        10_000..3_600_000 => ms - ms % 1_000,
        _ => ms - ms % 60_000,
    }
}

/// Names and values, one pair per line, with the values aligned; further lines of a value are
/// indented to it.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let indent = format!("\n{:width$}  ", "");
    let line = |(name, value): &(&str, String)| {
        format!("{name:<width$}  {}", value.replace('\n', &indent)).trim_end().to_owned()
    };
    fields.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A table with aligned columns: text to the left, numbers to the right. A cell is one line.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let safe = |row: &Vec<String>| row.iter().map(|cell| one_line(cell)).collect();
    let rows: &[Vec<String>] = &rows.iter().map(safe).collect::<Vec<_>>();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        header[column].chars().count().max(widest)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let numeric = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).peekable();
        cells.peek().is_some() && cells.all(|cell| cell == "-" || starts_with_digit(cell))
    };
    let right: Vec<bool> = (0..header.len()).map(numeric).collect();
    let mut lines = vec![line(header.iter().copied(), &widths, &right)];
    lines.extend(rows.iter().map(|row| line(row.iter().map(String::as_str), &widths, &right)));
    lines.join("\n")
}

fn starts_with_digit(cell: &str) -> bool {
    cell.starts_with(|c: char| c.is_ascii_digit())
}

fn line<'c>(cells: impl Iterator<Item = &'c str>, widths: &[usize], right: &[bool]) -> String {
    let mut line = String::new();
    for ((cell, width), right) in cells.zip(widths).zip(right) {
        let padded = if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        if !line.is_empty() {
            line.push_str("  ");
        }
        line.push_str(&padded);
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let rows = [vec!["a".to_owned(), "5".to_owned()], vec!["longer".into(), "123".into()]];
        assert_eq!(table(&["name", "n"], &rows), "name      n\na         5\nlonger  123");
        assert_eq!(table(&["name"], &[]), "name");
    }

    #[test]
    fn fields_align_and_keep_their_lines() {
        let rows = [("id", "42".to_owned()), ("reason", "a\nb".to_owned())];
        assert_eq!(fields(&rows), "id      42\nreason  a\n        b");
    }

    #[test]
    fn a_cell_is_one_line() {
        let rows = [vec!["a\n42".to_owned(), "5".to_owned()]];
        assert_eq!(table(&["id", "n"], &rows), "id     n\na\\n42  5");
    }

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time(1_795_262_401_000), "2026-11-21T12:00:01Z");
    }
}
