//! The data of a module in fewer, larger pieces. Go writes tens of thousands of tiny data segments. A
//! snapshot replaces them but leaves an empty one for each, and every instance would walk them all: 60 µs
//! where 2 suffice. What is merged says the same about every byte of memory.

use wasm_encoder::{ConstExpr, DataSection, DataSegment, DataSegmentMode, RawSection};
use wasmparser::{Data, DataKind, Operator, Parser, Payload};

/// The widest gap between two segments that is filled with zeros, in bytes.
const GAP_MAX: usize = 4_096;

/// A piece of memory as the data section has it.
struct Piece {
    start: usize,
    bytes: Vec<u8>,
}

/// The module with its segments merged; `None` if it is best left as it is.
pub(crate) fn merge(binary: &[u8]) -> Option<Vec<u8>> {
    let mut module = wasm_encoder::Module::new();
    let mut merged = false;
    for payload in Parser::new(0).parse_all(binary) {
        let payload = payload.ok()?;
        match &payload {
            // Code may name segments by their number, which would change.
            Payload::DataCountSection { .. } => return None,
            Payload::DataSection(section) => {
                let data: Option<Vec<Data<'_>>> =
                    section.clone().into_iter().map(Result::ok).collect();
                let data = data?;
                let pieces = pieces(&data)?;
                merged = pieces.len() < data.len();
                let mut section = DataSection::new();
                for Piece { start, bytes } in pieces {
                    let offset = ConstExpr::i32_const(u32::try_from(start).ok()?.cast_signed());
                    let mode = DataSegmentMode::Active { memory_index: 0, offset: &offset };
                    section.segment(DataSegment { mode, data: bytes });
                }
                module.section(&section);
            }
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    module.section(&RawSection { id, data: binary.get(range)? });
                }
            }
        }
    }
    merged.then(|| module.finish())
}

/// The segments merged, in the order of memory, if no two of them overlap: then nothing is written twice, and
/// a gap holds the zeros that memory starts with.
fn pieces(data: &[Data<'_>]) -> Option<Vec<Piece>> {
    let starts = data.iter().map(|segment| Some((start(segment)?, segment)));
    let mut segments = starts.collect::<Option<Vec<_>>>()?;
    segments.sort_by_key(|(start, _)| *start);
    let mut pieces: Vec<Piece> = Vec::new();
    for (start, segment) in segments {
        let last = pieces.last_mut().map(|piece| (piece.start + piece.bytes.len(), piece));
        match last {
            Some((end, _)) if start < end => return None,
            Some((end, piece)) if start - end <= GAP_MAX => {
                piece.bytes.resize(start - piece.start, 0);
                piece.bytes.extend_from_slice(segment.data);
            }
            _ => pieces.push(Piece { start, bytes: segment.data.to_vec() }),
        }
    }
    Some(pieces)
}

/// Where a segment lies, if it says so by a constant.
fn start(segment: &Data<'_>) -> Option<usize> {
    let DataKind::Active { memory_index: 0, offset_expr } = &segment.kind else { return None };
    let mut operators = offset_expr.get_operators_reader();
    match (operators.read(), operators.read()) {
        (Ok(Operator::I32Const { value }), Ok(Operator::End)) => {
            usize::try_from(value.cast_unsigned()).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(data: &str) -> Option<Vec<(usize, Vec<u8>)>> {
        let text = format!(
            r#"(module (memory 4) (global $g (mut i32) (i32.const 7))
              (func (export "f") (result i32) (global.get $g)) {data})"#
        );
        let module = merge(&wat::parse_str(text).unwrap())?;
        wasmparser::Validator::new().validate_all(&module).unwrap();
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(&module) {
            if let Payload::DataSection(section) = payload.unwrap() {
                for segment in section {
                    let segment = segment.unwrap();
                    found.push((start(&segment).unwrap(), segment.data.to_vec()));
                }
            }
        }
        Some(found)
    }

    #[test]
    fn neighbours_become_one_and_gaps_are_zeros() {
        let found = merged(
            r#"(data (i32.const 8) "ab") (data (i32.const 10) "c") (data (i32.const 13) "d")
               (data (i32.const 100000) "far")"#,
        );
        let wanted = vec![(8, b"abc\0\0d".to_vec()), (100_000, b"far".to_vec())];
        assert_eq!(found, Some(wanted));
    }

    #[test]
    fn their_order_says_nothing_where_none_overlap() {
        let found = merged(r#"(data (i32.const 8) "cd") (data (i32.const 6) "ab")"#);
        assert_eq!(found, Some(vec![(6, b"abcd".to_vec())]));
    }

    #[test]
    fn what_cannot_be_merged_stays_as_it_is() {
        for data in [
            "",
            r#"(data (i32.const 8) "one")"#,
            r#"(data (i32.const 8) "back") (data (i32.const 4) "wards")"#,
            r#"(data (i32.const 8) "over") (data (i32.const 10) "lap")"#,
            r#"(data (i32.const 8) "a") (data "passive")"#,
            r#"(data (i32.const 0) "a") (data (i32.const 90000) "b")"#,
            r#"(data $p "passive") (func (data.drop $p))"#,
        ] {
            assert_eq!(merged(data), None, "{data}");
        }
    }
}
