//! Merges the data segments of a module into fewer, larger ones.
//!
//! Go writes tens of thousands of small data segments. A snapshot replaces them but leaves an empty segment
//! for each, and every new instance iterates over all of them. The merged segments define the same bytes.

use wasm_encoder::{ConstExpr, DataSection, DataSegment, DataSegmentMode, RawSection};
use wasmparser::{Data, DataKind, Operator, Parser, Payload};

/// The largest gap between two segments that is filled with zeros, in bytes.
const GAP_MAX: usize = 4_096;

/// A merged segment.
struct Piece {
    start: usize,
    bytes: Vec<u8>,
}

/// The module with merged segments. `None` if nothing can be merged.
pub(super) fn merge(binary: &[u8]) -> Option<Vec<u8>> {
    let mut module = wasm_encoder::Module::new();
    let mut merged = false;
    for payload in Parser::new(0).parse_all(binary) {
        let payload = payload.ok()?;
        match &payload {
            // The code may refer to segments by their index, which would change.
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

/// The merged segments, in the order of their addresses. `None` if two segments overlap: without overlaps
/// no byte is written twice, and a gap contains the zeros that memory starts with.
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

/// The address of a segment, if it is a constant.
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
    fn neighbours_are_merged_and_gaps_are_zeros() {
        let found = merged(
            r#"(data (i32.const 8) "ab") (data (i32.const 10) "c") (data (i32.const 13) "d")
               (data (i32.const 100000) "far")"#,
        );
        let wanted = vec![(8, b"abc\0\0d".to_vec()), (100_000, b"far".to_vec())];
        assert_eq!(found, Some(wanted));
    }

    #[test]
    fn segments_without_overlap_may_have_any_order() {
        let found = merged(r#"(data (i32.const 8) "cd") (data (i32.const 6) "ab")"#);
        assert_eq!(found, Some(vec![(6, b"abcd".to_vec())]));
    }

    #[test]
    fn segments_that_cannot_be_merged_are_kept() {
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
