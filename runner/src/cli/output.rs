//! What goes to stdout: lines, JSON and tables.

use std::io::{self, Write};

use serde::Serialize;

use super::failure::Failure;

/// Prints a line of text.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::of_stdout(&error))
}

/// Prints a value as one line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value)
        .map_err(|error| Failure::failed(format!("no JSON: {error}"), "leave out --json"))?;
    print(&json)
}

/// A table with its columns aligned: the first to the left, numbers to the right.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
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
}
