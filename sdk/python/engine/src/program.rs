//! The program that the daemon writes into the engine: the modules of a handler.
//!
//! It is a sequence of fields, each a 32-bit little-endian length and that many bytes: the name of the handler's
//! module; then name, file, kind (`module` or `package`) and source of each module.

pub(crate) struct Program {
    pub(crate) entry: String,
    pub(crate) modules: Vec<Module>,
}

pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) is_package: bool,
    pub(crate) source: String,
}

impl Program {
    /// `None` if the bytes are not a program.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let entry = fields.next()?;
        let mut modules = Vec::new();
        while let Some(name) = fields.next() {
            let (file, kind, source) = (fields.next()?, fields.next()?, fields.next()?);
            modules.push(Module { name, file, is_package: kind == "package", source });
        }
        Some(Self { entry, modules })
    }
}

struct Fields<'a>(&'a [u8]);

impl Iterator for Fields<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}
