//! Bounds the code of a module before the compiler sees it.
//!
//! The time and memory of the compiler grow with products: locals times branches, and the values that
//! branches carry. A file of a few KiB can cost it gigabytes. The limits are 20 times and more what compilers
//! emit for large programs.

use wasmparser::{
    BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload,
};

use super::error::LoadError;

/// The limits of one function: what is counted, and the largest count.
const LOCALS_MAX: u64 = 10_000;
const BLOCKS_MAX: u64 = 100_000;
/// Targets of `br`, `br_if` and `br_table`.
const BRANCHES_MAX: u64 = 100_000;
/// Operands that blocks and branches carry to their ends.
const CARRIED_MAX: u64 = 200_000;
/// Locals, times blocks and branches.
const MERGES_MAX: u64 = 50_000_000;
/// Blocks and branches of all functions together. Large handlers of Go have half a million.
const TOTAL_MAX: u64 = 10_000_000;

/// How many operands a block takes and returns.
#[derive(Clone, Copy, Default)]
struct Arity {
    params: u64,
    results: u64,
}

/// An open block.
struct Frame {
    /// How many operands a branch to it carries.
    carries: u64,
}

/// What was counted in one function.
#[derive(Default)]
struct Counts {
    locals: u64,
    blocks: u64,
    branches: u64,
    carried: u64,
}

/// Checks the code of a binary module, or refuses the function that is too complex.
pub(super) fn check(binary: &[u8]) -> Result<(), LoadError> {
    let invalid = |error: BinaryReaderError| LoadError::Invalid { reason: error.to_string() };
    let (mut types, mut function, mut total) = (Vec::new(), 0_u32, 0_u64);
    for payload in Parser::new(0).parse_all(binary) {
        match payload.map_err(invalid)? {
            Payload::TypeSection(section) => {
                for group in section {
                    types.extend(
                        group.map_err(invalid)?.types().map(|ty| arity(&ty.composite_type.inner)),
                    );
                }
            }
            Payload::CodeSectionEntry(body) => {
                let counts = count(&body, &types).map_err(invalid)?;
                counts.check(function)?;
                total += counts.blocks + counts.branches;
                function = function.saturating_add(1);
            }
            _ => {}
        }
    }
    match total > TOTAL_MAX {
        true => Err(LoadError::Code { what: "blocks and branches", size: total, max: TOTAL_MAX }),
        false => Ok(()),
    }
}

fn arity(ty: &CompositeInnerType) -> Arity {
    match ty {
        CompositeInnerType::Func(ty) => {
            Arity { params: ty.params().len() as u64, results: ty.results().len() as u64 }
        }
        _ => Arity::default(),
    }
}

/// Counts one function. It stops at the first operator with which a count exceeds its limit.
fn count(body: &FunctionBody<'_>, types: &[Arity]) -> Result<Counts, BinaryReaderError> {
    let mut counts = Counts::default();
    for local in body.get_locals_reader()? {
        counts.locals += u64::from(local?.0);
    }
    let mut open = vec![Frame { carries: 0 }];
    for operator in body.get_operators_reader()? {
        if counts.excess().is_some() {
            break;
        }
        match operator? {
            Operator::Block { blockty } | Operator::If { blockty } => {
                counts.enter(&mut open, arity_of(blockty, types), false);
            }
            Operator::Loop { blockty } => counts.enter(&mut open, arity_of(blockty, types), true),
            Operator::End => drop(open.pop()),
            Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => {
                counts.branch(&open, relative_depth);
            }
            Operator::BrTable { targets } => {
                counts.branch(&open, targets.default());
                for target in targets.targets() {
                    counts.branch(&open, target?);
                }
            }
            _ => {}
        }
    }
    Ok(counts)
}

fn arity_of(ty: BlockType, types: &[Arity]) -> Arity {
    match ty {
        BlockType::Empty => Arity::default(),
        BlockType::Type(_) => Arity { params: 0, results: 1 },
        BlockType::FuncType(index) => types.get(index as usize).copied().unwrap_or_default(),
    }
}

impl Counts {
    fn enter(&mut self, open: &mut Vec<Frame>, arity: Arity, is_loop: bool) {
        self.blocks += 1;
        self.carried += arity.params + arity.results;
        open.push(Frame { carries: if is_loop { arity.params } else { arity.results } });
    }

    fn branch(&mut self, open: &[Frame], depth: u32) {
        self.branches += 1;
        let target = open.len().checked_sub(1 + depth as usize).and_then(|at| open.get(at));
        self.carried += target.map_or(0, |target| target.carries);
    }

    /// What exceeds its limit, if something does.
    fn excess(&self) -> Option<(&'static str, u64, u64)> {
        let merges = self.locals.saturating_mul(self.blocks + self.branches);
        [
            ("locals", self.locals, LOCALS_MAX),
            ("blocks", self.blocks, BLOCKS_MAX),
            ("branch targets", self.branches, BRANCHES_MAX),
            ("operands of blocks and branches", self.carried, CARRIED_MAX),
            ("locals times blocks and branches", merges, MERGES_MAX),
        ]
        .into_iter()
        .find(|(_, size, max)| size > max)
    }

    fn check(&self, function: u32) -> Result<(), LoadError> {
        match self.excess() {
            Some((what, size, max)) => Err(LoadError::Function { function, what, size, max }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal of a second function with this text.
    fn refusal(function: &str) -> Option<(u32, &'static str)> {
        let text = format!(
            "(module (type $wide (func (param i32 i32) (result i32 i32))) (func) {function})"
        );
        match check(&wat::parse_str(text).unwrap()) {
            Ok(()) => None,
            Err(LoadError::Function { function, what, .. }) => Some((function, what)),
            Err(other) => panic!("{other}"),
        }
    }

    fn locals(count: usize, rest: &str) -> String {
        format!("(func (local {}) {rest})", "i32 ".repeat(count))
    }

    #[test]
    fn each_count_has_its_limit() {
        let table =
            |targets: usize| format!("(func (br_table {} (i32.const 0)))", "0 ".repeat(targets));
        let blocks = |count: usize| "(block)".repeat(count);
        for (inside, outside, what) in [
            (locals(10_000, ""), locals(10_001, ""), "locals"),
            (
                format!("(func {})", blocks(100_000)),
                format!("(func {})", blocks(100_001)),
                "blocks",
            ),
            (
                locals(5_000, &blocks(10_000)),
                locals(5_000, &blocks(10_001)),
                "locals times blocks and branches",
            ),
        ] {
            assert_eq!(refusal(&inside), None, "{what}");
            assert_eq!(refusal(&outside), Some((1, what)));
        }
        assert_eq!(refusal(&table(60_000)), None);
        let two = format!("(func (block {0}) {0})", &table(60_000)[6..table(60_000).len() - 1]);
        assert_eq!(refusal(&two), Some((1, "branch targets")));
    }

    #[test]
    fn operands_that_branches_carry_are_counted() {
        let body = |count: usize| {
            let block = "(block (type $wide) (br_if 0 (i32.const 0))) ";
            format!("(func i32.const 1 i32.const 2 {} drop drop)", block.repeat(count))
        };
        // A block carries four operands, and the branch in it two.
        assert_eq!(refusal(&body(33_333)), None);
        assert_eq!(refusal(&body(33_334)), Some((1, "operands of blocks and branches")));
    }
}
