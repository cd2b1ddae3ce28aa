//! How much one call takes: neither too many items nor too many bytes.

use crate::wire::constants::CALL_BYTES_MAX;

/// How many of the first items fit into one call: at most `most`, and at most [`CALL_BYTES_MAX`] unless
/// the first one alone has more.
pub(crate) fn fitting<T>(
    items: impl IntoIterator<Item = T>,
    most: usize,
    bytes_of: impl Fn(T) -> usize,
) -> usize {
    let (mut count, mut bytes) = (0, 0_usize);
    for item in items.into_iter().take(most) {
        bytes = bytes.saturating_add(bytes_of(item));
        if bytes > CALL_BYTES_MAX {
            return count.max(1);
        }
        count += 1;
    }
    count
}

/// The items in parts that each fit into one call.
pub(crate) fn parts<T>(
    mut items: &[T],
    most: usize,
    bytes_of: impl Fn(&T) -> usize,
) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let (part, rest) = items.split_at(fitting(items, most, &bytes_of));
        items = rest;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_neither_too_many_items_nor_too_many_bytes() {
        let lengths = |sizes: &[usize]| -> Vec<usize> {
            parts(sizes, 3, |size| *size).map(<[usize]>::len).collect()
        };
        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&[1; 7]), [3, 3, 1]);
        let half = CALL_BYTES_MAX / 2;
        assert_eq!(lengths(&[half, half, half, 1]), [2, 2]);
        assert_eq!(lengths(&[4 * half, 4 * half, usize::MAX, usize::MAX]), [1, 1, 1, 1]);
    }
}
