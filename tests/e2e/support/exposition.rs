//! A parser for the Prometheus text format, and checks of the naming rules for metrics, units and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::support::client::get;

/// The content type of the text format.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Accepted labels: their values are topics of the manifest, or a small set.
const LABELS: [&str; 14] = [
    "topic",
    "task",
    "state",
    "verdict",
    "class",
    "digest",
    "role",
    "outcome",
    "source",
    "connection",
    "primary",
    "version",
    "le",
    "quantile",
];
/// Suffixes that are not base units.
const WRONG_UNITS: [&str; 8] =
    ["_ms", "_millis", "_milliseconds", "_us", "_minutes", "_kb", "_mb", "_percent"];

/// A parsed page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Help and type of each family, by its name.
    pub(crate) families: BTreeMap<String, (String, String)>,
    pub(crate) samples: Vec<Sample>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// The metrics of a daemon.
pub(crate) fn metrics(at: SocketAddr) -> Page {
    let answer = get(at, "/metrics");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(PLAIN)));
    Page::read(answer.text())
}

impl Page {
    /// Parses the text format.
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                let before =
                    page.families.insert(name.to_owned(), (help.to_owned(), String::new()));
                assert!(before.is_none(), "{name} is listed twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                page.families.get_mut(name).unwrap().1 = kind.to_owned();
            } else {
                assert!(!line.starts_with('#') && !line.is_empty(), "{line:?}");
                page.samples.push(read_sample(line));
            }
        }
        page
    }

    /// The value of a series; 0 without one.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name, labels).map(|sample| sample.value).sum()
    }

    /// The series of a name that have these labels.
    pub(crate) fn all<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let has = |sample: &Sample, (label, value): &(&str, &str)| {
            sample.labels.get(*label).is_some_and(|found| found == value)
        };
        self.samples
            .iter()
            .filter(move |sample| sample.name == name)
            .filter(move |sample| labels.iter().all(|label| has(sample, label)))
    }

    /// Every name that a query may use.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (name, (_, kind)) in &self.families {
            if kind == "histogram" {
                names.extend(["_bucket", "_sum", "_count"].map(|ending| format!("{name}{ending}")));
            } else {
                names.insert(name.clone());
            }
        }
        names
    }

    /// The violations of the rules.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, (help, kind)) in &self.families {
            let mut fault = |what: &str| faults.push(format!("{name}: {what}"));
            if !name.starts_with("duebox_") && !name.starts_with("process_") {
                fault("it has no prefix");
            }
            if !help.ends_with('.') || help.len() < 10 {
                fault("its help is not a sentence");
            }
            if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
                fault("its name is not in snake case");
            }
            if (kind == "counter") != name.ends_with("_total") {
                fault("counters, and only they, end in _total");
            }
            if !["counter", "gauge", "histogram"].contains(&kind.as_str()) {
                fault("its type is unknown");
            }
            if kind == "histogram" && !name.ends_with("_seconds") && !name.ends_with("_bytes") {
                fault("a histogram has a unit");
            }
            let base = name.trim_end_matches("_total");
            if WRONG_UNITS.iter().any(|unit| base.ends_with(unit)) {
                fault("its unit is not a base unit");
            }
        }
        faults.extend(self.samples.iter().filter_map(|sample| self.fault_of(sample)));
        faults.extend(self.repeated());
        faults
    }

    fn fault_of(&self, sample: &Sample) -> Option<String> {
        let Sample { name, labels, value } = sample;
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let known = self.families.contains_key(name)
            || histogram
                .and_then(|base| self.families.get(base))
                .is_some_and(|it| it.1 == "histogram");
        if !known {
            return Some(format!("{name} is of no family"));
        }
        if let Some(label) = labels.keys().find(|label| !LABELS.contains(&label.as_str())) {
            return Some(format!(
                "{name} has the label {label}, which may have any number of values"
            ));
        }
        (*value < 0.0 || !value.is_finite()).then(|| format!("{name} is {value}"))
    }

    fn repeated(&self) -> Option<String> {
        let mut seen = BTreeSet::new();
        let again = |sample: &&Sample| !seen.insert((sample.name.clone(), sample.labels.clone()));
        self.samples.iter().find(again).map(|sample| format!("{sample:?} is listed twice"))
    }

    /// Whether the buckets of each histogram rise to its count.
    pub(crate) fn check_buckets(&self) {
        let histograms = self.families.iter().filter(|(_, (_, kind))| kind == "histogram");
        for (name, _) in histograms {
            for count in self.all(&format!("{name}_count"), &[]) {
                let bucket_name = format!("{name}_bucket");
                let (mut last, mut bound) = (0.0, "");
                let own = |sample: &&Sample| {
                    let mut labels = sample.labels.clone();
                    labels.remove("le");
                    labels == count.labels
                };
                for bucket in self.all(&bucket_name, &[]).filter(own) {
                    assert!(bucket.value >= last, "{bucket:?}");
                    last = bucket.value;
                    bound = &bucket.labels["le"];
                }
                assert_eq!(
                    (bound, last),
                    ("+Inf", count.value),
                    "{name}: the last bucket holds all"
                );
            }
        }
    }
}

fn read_sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
    let (name, labels) = match series.split_once('{') {
        None => (series, BTreeMap::new()),
        Some((name, rest)) => (name, read_labels(rest.strip_suffix('}').unwrap())),
    };
    let value = value.parse().unwrap_or_else(|_| panic!("{line:?}"));
    Sample { name: name.to_owned(), labels, value }
}

fn read_labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut chars = text.chars().peekable();
    while chars.peek().is_some() {
        let name: String = chars.by_ref().take_while(|c| *c != '=').collect();
        assert_eq!(chars.next(), Some('"'), "{text:?}");
        let mut value = String::new();
        loop {
            match chars.next().unwrap() {
                '"' => break,
                '\\' => match chars.next().unwrap() {
                    'n' => value.push('\n'),
                    plain => value.push(plain),
                },
                plain => value.push(plain),
            }
        }
        assert!(labels.insert(name, value).is_none(), "a label twice: {text:?}");
        if chars.peek() == Some(&',') {
            chars.next();
        }
    }
    labels
}

#[test]
fn an_exposition_is_parsed_and_checked() {
    let good = "# HELP duebox_x_total Counts the x.\n# TYPE duebox_x_total counter\n\
                duebox_x_total{topic=\"a\\\"b,c\"} 3\n";
    let page = Page::read(good);
    assert_eq!(page.value("duebox_x_total", &[("topic", "a\"b,c")]), 3.0);
    assert_eq!(page.faults(), Vec::<String>::new());
    for bad in [
        good.replace("_total", ""),
        good.replace("topic=", "job_id="),
        good.replace("duebox_x_total{", "duebox_y_total{"),
        good.replace("duebox", "other"),
        good.replace("Counts the x.", "x"),
        good.replace("x_total", "x_ms_total"),
        good.replace(" 3", " -3"),
        format!("{good}duebox_x_total{{topic=\"a\\\"b,c\"}} 4\n"),
    ] {
        assert_eq!(Page::read(&bad).faults().len(), 1, "{bad}");
    }
}
