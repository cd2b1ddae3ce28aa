//! Replaces the types of a source by blanks, so that every line and column stays where it was.

/// A part of a source in bytes, and what its first character becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Blank {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) first: char,
}

/// The source with these parts replaced. They are in ascending order; a part that is not in the source is ignored.
pub(super) fn apply(source: &str, blanks: &[Blank]) -> String {
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for Blank { start, end, first } in blanks {
        let (Some(kept), Some(part)) = (source.get(at..*start), source.get(*start..*end)) else {
            continue;
        };
        text.push_str(kept);
        let blank = |(index, c): (usize, char)| match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => c,
            _ if index == 0 => *first,
            _ => ' ',
        };
        text.extend(part.char_indices().map(blank));
        at = *end;
    }
    text.push_str(source.get(at..).unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_blanks_and_nothing_moves() {
        let source = "let ü: {\n ö: T } = 1;\ntype A = B;";
        let part = |text: &str, first| {
            let start = source.find(text).unwrap();
            Blank { start, end: start + text.len(), first }
        };
        let blanks = [part(": {\n ö: T }", ' '), part("type A = B;", ';')];
        let blanked = apply(source, &blanks);
        assert_eq!(blanked, "let ü   \n        = 1;\n;          ");
        assert_eq!(blanked.chars().count(), source.chars().count());
    }

    #[test]
    fn parts_outside_of_the_source_are_ignored() {
        let blank = |start, end| Blank { start, end, first: ' ' };
        assert_eq!(apply("aü", &[blank(0, 9), blank(2, 3), blank(2, 1)]), "aü");
    }
}
