//! The jobs that keys push: the test cases of a topic, its smoke cases, or a payload of the command line.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{Due, NewJob};

use crate::cli::inspect::place_of;
use crate::cli::support::failure::Failure;
use crate::cli::support::target;
use crate::cli::test::suites;
use crate::deploy::smoke;
use crate::manifest::{Case, Environment, Manifest, Topic};

/// How much of a payload is shown, in characters.
const SHOWN: usize = 60;

/// A job that can be pushed.
#[derive(Debug, Clone)]
pub(super) struct PushSample {
    name: String,
    payload: Bytes,
    headers: BTreeMap<String, String>,
}

/// The samples of a topic; there is always one.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) topic: TopicName,
    all: Vec<PushSample>,
    selected: usize,
}

impl PushSample {
    fn of_case(case: &Case) -> Self {
        let (name, payload, headers) = (&case.name, &case.payload, &case.headers);
        Self { name: name.clone(), payload: payload.clone(), headers: headers.clone() }
    }

    /// The job, due now.
    pub(super) fn job(&self, id: JobId) -> Result<NewJob, Failure> {
        let options = Options::default().with_headers(self.headers.clone());
        let options = options.map_err(|error| {
            Failure::bad_input(error.to_string(), "correct the headers of the case")
        })?;
        Ok(NewJob { id, due: Due::Now, payload: self.payload.clone(), options })
    }

    /// The start of the payload, on one line.
    pub(super) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.payload);
        let mut shown: String = text.chars().take(SHOWN).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        if shown.is_empty() { "an empty payload".to_owned() } else { shown }
    }
}

impl Samples {
    /// The samples of a topic: that with this name, or else the one whose handler is `file`, or else the first one with a
    /// handler. `payload` replaces the test cases.
    ///
    /// # Errors
    /// [`Failure`] of bad input if there is no such topic, or a file of test cases is invalid.
    pub(super) fn find(
        manifest: &Manifest,
        environment: &Environment,
        (name, file): (Option<&TopicName>, Option<&Path>),
        payload: Option<Bytes>,
    ) -> Result<Self, Failure> {
        let (entry, settings) = topic_of(manifest, name, file)?;
        let mut all = Vec::new();
        if let Some(payload) = payload {
            let (name, headers) = ("--payload".to_owned(), BTreeMap::new());
            all.push(PushSample { name, payload, headers });
        } else {
            let suites = suites::find(manifest, environment, Some(&entry))?;
            let files = suites.iter().flat_map(|suite| &suite.files);
            all.extend(files.flat_map(|file| &file.cases).map(PushSample::of_case));
            all.extend(settings.smoke.iter().map(PushSample::of_case));
        }
        if all.is_empty() {
            let name = "no test case".to_owned();
            all.push(PushSample { name, payload: Bytes::new(), headers: BTreeMap::new() });
        }
        let topic = match name {
            Some(name) => name.clone(),
            // A topic that the pattern matches.
            None => smoke::topic_of(&entry)
                .map_err(|error| Failure::bad_input(error.to_string(), "rename the pattern"))?,
        };
        Ok(Self { topic, all, selected: 0 })
    }

    pub(super) fn selected(&self) -> &PushSample {
        &self.all[self.selected]
    }

    /// Selects the next one.
    pub(super) fn select_next(&mut self) {
        self.selected = (self.selected + 1) % self.all.len();
    }

    /// Selects the one at the same place as in the samples before.
    pub(super) fn select_like(&mut self, before: &Self) {
        self.selected = before.selected.min(self.all.len() - 1);
    }

    /// Which one is selected, for people.
    pub(super) fn describe(&self) -> String {
        let PushSample { name, .. } = self.selected();
        let name = if name.is_empty() { String::new() } else { format!("{name}: ") };
        format!("{} of {}  {name}{}", self.selected + 1, self.all.len(), self.selected().text())
    }
}

/// The entry of the manifest that serves a topic, a file, or anything.
fn topic_of<'m>(
    manifest: &'m Manifest,
    name: Option<&TopicName>,
    file: Option<&Path>,
) -> Result<(String, &'m Topic), Failure> {
    let named = manifest.topics.iter().map(|(name, topic)| (name.to_string(), topic));
    let patterns = manifest.patterns.iter().map(|(name, topic)| (name.to_string(), topic));
    let all: Vec<(String, &Topic)> = named.chain(patterns).collect();
    if let Some(name) = name {
        let settings = target::topic(manifest, name)?;
        let found = all.into_iter().find(|(_, topic)| std::ptr::eq(*topic, settings));
        return match found.filter(|(_, topic)| topic.handler.is_some()) {
            Some(found) => Ok(found),
            None => Err(Failure::bad_input(
                format!("topic {name} has no handler: pull consumers run its jobs"),
                "name a topic with a handler",
            )),
        };
    }
    let wanted = file.map(place_of);
    let is_bound = |topic: &Topic| {
        let place = topic.handler.as_deref().map(place_of);
        place.is_some() && place == wanted
    };
    let found = all.iter().position(|(_, topic)| is_bound(topic));
    let found = found.or_else(|| all.iter().position(|(_, topic)| topic.handler.is_some()));
    found.and_then(|at| all.into_iter().nth(at)).ok_or_else(|| {
        Failure::bad_input(
            format!("{} binds no handler to a topic", manifest.path.display()),
            "add a topic: [topics.order-close] with handler = \"build/handler.wasm\"",
        )
    })
}
