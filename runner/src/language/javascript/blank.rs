//! Replaces the types of a source by blanks, so that every line and column stays where it was, and enums and the like by
//! JavaScript, so that every line stays.

/// A part of a source in bytes, and what its first characters become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blank {
    pub(super) start: usize,
    pub(super) end: usize,
    /// May be longer than the part.
    pub(super) text: String,
}

/// The source with these parts replaced. They are in ascending order; a part that is not in the source is ignored.
pub(super) fn apply(source: &str, blanks: &[Blank]) -> String {
    let mut text = String::with_capacity(source.len());
    let mut at = 0;
    for Blank { start, end, text: first } in blanks {
        let (Some(kept), Some(part)) = (source.get(at..*start), source.get(*start..*end)) else {
            continue;
        };
        text.push_str(kept);
        text.push_str(first);
        let mut written = first.chars().count();
        for c in part.chars() {
            let is_break = matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}');
            if is_break {
                text.push(c);
            } else if written > 0 {
                written -= 1;
            } else {
                text.push(' ');
            }
        }
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
        let blanks = [part(source, ": {\n ö: T }", ""), part(source, "type A = B;", ";")];
        let blanked = apply(source, &blanks);
        assert_eq!(blanked, "let ü   \n        = 1;\n;          ");
        assert_eq!(blanked.chars().count(), source.chars().count());
    }

    fn part(source: &str, part: &str, text: &str) -> Blank {
        let start = source.find(part).unwrap();
        Blank { start, end: start + part.len(), text: text.to_owned() }
    }

    #[test]
    fn a_longer_text_moves_no_line() {
        let source = "enum E {\n A\n}\nnext";
        let blanks = [part(source, "enum E {", "(function(){["), part(source, "A\n}", "1]})();")];
        assert_eq!(apply(source, &blanks), "(function(){[\n 1]})();\n\nnext");
        let inserted = Blank { start: 4, end: 4, text: "!".to_owned() };
        assert_eq!(apply("enum E", &[inserted]), "enum! E");
    }

    #[test]
    fn parts_outside_of_the_source_are_ignored() {
        let blank = |start, end| Blank { start, end, text: String::new() };
        assert_eq!(apply("aü", &[blank(0, 9), blank(2, 3), blank(2, 1)]), "aü");
    }
}
