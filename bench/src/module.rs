//! Builds of a handler that nobody has seen before: the same code, another digest.

/// The handler with a custom section that makes it another build.
pub(crate) fn edition(handler: &[u8], number: u64) -> Vec<u8> {
    let name = format!("edition{number:08}");
    let mut module = handler.to_vec();
    // Section 0, its length, the length of its name: both fit one byte.
    module.extend([0, name.len() as u8 + 1, name.len() as u8]);
    module.extend(name.as_bytes());
    module
}
