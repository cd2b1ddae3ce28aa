//! What a handler needs beyond the default sandbox, as the block of the manifest that grants it.

use duebox_sandbox::{Capability, ModuleOutline};

/// How many names of settings are looked for.
const NAMES_MAX: usize = 32;

/// What a handler needs, as far as its file shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) capabilities: Vec<Capability>,
    /// Origins that it names.
    pub(super) origins: Vec<String>,
    /// The names of settings and secrets that a source reads.
    pub(super) config: Vec<String>,
    pub(super) secrets: Vec<String>,
}

/// The key of the sandbox that grants a capability.
pub(super) fn name(capability: Capability) -> &'static str {
    match capability {
        Capability::Push => "push",
        Capability::Http => "http",
        Capability::Kv => "kv",
    }
}

impl Needs {
    /// From the imports of a module.
    pub(super) fn of_module(outline: &ModuleOutline) -> Self {
        let capabilities = outline.capabilities();
        let sends = capabilities.contains(&Capability::Http);
        let origins = if sends { outline.origins.clone() } else { Vec::new() };
        Self { capabilities, origins, ..Self::default() }
    }

    /// From the texts of a source's files and what they import of `duebox`: an interpreter imports everything, so only
    /// the texts tell. `has_fetch` if its language has a global `fetch`.
    pub(super) fn of_source(texts: &[String], imports: &[String], has_fetch: bool) -> Self {
        let imported = |name: &str| imports.iter().any(|import| import == name);
        let fetches = has_fetch && texts.iter().any(|text| is_called(text, "fetch("));
        let is_needed = |capability: &Capability| {
            imported(name(*capability)) || (*capability == Capability::Http && fetches)
        };
        let all = [Capability::Push, Capability::Http, Capability::Kv];
        let capabilities: Vec<Capability> = all.into_iter().filter(is_needed).collect();
        let sends = capabilities.contains(&Capability::Http);
        let all = |find: &dyn Fn(&str) -> Vec<String>| {
            let mut found: Vec<String> = texts.iter().flat_map(|text| find(text)).collect();
            found.sort();
            found.dedup();
            found.truncate(NAMES_MAX);
            found
        };
        let origins = if sends { all(&origins) } else { Vec::new() };
        let config = all(&|text| arguments(text, "config("));
        let secrets = all(&|text| arguments(text, "secret("));
        Self { capabilities, origins, config, secrets }
    }

    /// Leaves out the settings that every topic of the handler has.
    pub(super) fn leave_out(&mut self, is_set: impl Fn(&str) -> bool) {
        self.config.retain(|name| !is_set(name));
        self.secrets.retain(|name| !is_set(name));
    }

    /// Whether the default sandbox is enough.
    pub(super) fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// A `[topics.NAME.sandbox]` that grants these capabilities.
    pub(super) fn block(&self, topic: &str, capabilities: &[Capability]) -> String {
        let mut lines =
            vec![match topic.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
                true => format!("[topics.{topic}.sandbox]"),
                false => format!("[topics.\"{topic}\".sandbox]"),
            }];
        for capability in capabilities {
            lines.push(match capability {
                Capability::Push => "push = [\"other-topic\"]   # the topics it pushes to; \"sms.*\" for all that begin so".to_owned(),
                Capability::Http if self.origins.is_empty() => {
                    "http = [\"https://api.example.com\"]   # the origins it calls".to_owned()
                }
                Capability::Http => format!("http = {:?}   # the origins that its file names", self.origins),
                Capability::Kv => "kv = true   # the store that all jobs of the topic share".to_owned(),
            });
        }
        lines.join("\n")
    }

    /// The whole block, with settings and secrets.
    pub(super) fn whole_block(&self, topic: &str) -> String {
        let mut block = self.block(topic, &self.capabilities);
        if !self.config.is_empty() {
            let pairs: Vec<String> =
                self.config.iter().map(|name| format!("{} = \"…\"", key(name))).collect();
            block += &format!("\nconfig = {{ {} }}", pairs.join(", "));
        }
        if !self.secrets.is_empty() {
            let file = |name: &String| format!("{} = {{ file = {name:?} }}", key(name));
            let pairs: Vec<String> = self.secrets.iter().map(file).collect();
            block += &format!("\nsecrets = {{ {} }}", pairs.join(", "));
        }
        block
    }
}

/// A name as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if is_bare { name.to_owned() } else { format!("{name:?}") }
}

/// Whether a text contains a call, not as the end of a longer name.
fn is_called(text: &str, call: &str) -> bool {
    calls(text, call).next().is_some()
}

/// What follows each call of a name.
fn calls<'t>(text: &'t str, call: &str) -> impl Iterator<Item = &'t str> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    // A comment is not a call; a line that is one is enough.
    let is_comment = |at: usize| {
        let line = text[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        line.starts_with("//") || line.starts_with('#') || line.starts_with('*')
    };
    let found = text.match_indices(call).map(|(at, found)| (at, at + found.len()));
    let own = found.filter(move |(at, _)| !text[..*at].ends_with(is_name) && !is_comment(*at));
    own.map(|(_, end)| &text[end..])
}

/// The texts in quotes that follow a call, each once.
fn arguments(text: &str, call: &str) -> Vec<String> {
    let mut names = Vec::new();
    for rest in calls(text, call) {
        let quote = rest.chars().next().filter(|letter| matches!(letter, '"' | '\'' | '`'));
        let name =
            quote.and_then(|quote| rest[1..].split_once(quote)).map(|(name, _)| name.to_owned());
        if let Some(name) =
            name.filter(|name| name.len() <= 100 && !name.contains(['\n', '$', '{']))
            && names.len() < NAMES_MAX
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// The origins of the URLs in a text, each once.
fn origins(text: &str) -> Vec<String> {
    let mut origins: Vec<String> = Vec::new();
    for scheme in ["https://", "http://"] {
        for (at, _) in text.match_indices(scheme) {
            let mut host = text[at + scheme.len()..]
                .split(|c: char| !(c.is_ascii_alphanumeric() || ".-:".contains(c)));
            let host = host.next().unwrap_or_default().trim_end_matches(['.', ':', '-']);
            let is_comment = text[..at]
                .rsplit('\n')
                .next()
                .is_some_and(|line| line.trim_start().starts_with("//"));
            let origin = format!("{scheme}{host}");
            if !is_comment
                && host.contains('.')
                && origins.len() < NAMES_MAX
                && !origins.contains(&origin)
            {
                origins.push(origin);
            }
        }
    }
    origins
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn a_source_tells_what_it_needs() {
        let of_source = |text: &str| {
            let texts = [text.to_owned()];
            Needs::of_source(&texts, &source::imports_of(&texts), true)
        };
        let needs = of_source(
            "// push(\"a\")\nimport { http, job } from \"duebox\";\nconst key = job.secret('api-key');\n\
             http.post(`https://api.example.com/v1/${job.config(\"path\", \"x\")}`); job.config(name); unpush(1);",
        );
        assert_eq!(needs.capabilities, [Capability::Http]);
        assert_eq!(needs.origins, ["https://api.example.com"]);
        assert_eq!(
            (needs.config.as_slice(), needs.secrets.as_slice()),
            (&["path".to_owned()][..], &["api-key".to_owned()][..])
        );
        let block = needs.whole_block("order.close");
        let table: toml::Table = toml::from_str(&block).unwrap();
        let sandbox = &table["topics"]["order.close"]["sandbox"];
        assert_eq!(sandbox["http"][0].as_str(), Some("https://api.example.com"));
        assert_eq!(sandbox["secrets"]["api-key"]["file"].as_str(), Some("api-key"));
        assert!(of_source("[].push(1); log.info('kv is not used')").is_empty());
        assert_eq!(of_source("await fetch(url)").capabilities, [Capability::Http]);
    }
}
