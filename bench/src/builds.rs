//! Distinct builds of one handler: the same code with another digest, so that no cache knows them.

/// Returns the handler with a custom section that contains `number`.
pub(crate) fn distinct_build(handler: &[u8], number: u64) -> Vec<u8> {
    let name = format!("edition{number:08}");
    let mut module = handler.to_vec();
    // Section id 0, the section's length, the name's length: each length fits in one byte.
    module.extend([0, name.len() as u8 + 1, name.len() as u8]);
    module.extend(name.as_bytes());
    module
}
