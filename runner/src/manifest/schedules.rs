//! `[[schedules]]`: jobs that are pushed at fixed times. Each is checked together with its topic.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;

use super::json;
use super::keys::{SCHEDULE, nearest};
use super::section::Section;
use super::topic_table::LONGEST;
use super::topics::Topics;
use crate::schedule::{
    EVERY_RANGE, Missed, Schedule, ScheduleError, When, check_name, check_zone, zones,
};

/// The most schedules of a manifest.
const SCHEDULES_MAX: usize = 1_000;

/// Reads every entry of `[[schedules]]`.
pub(super) fn read_schedules(root: &Section<'_>, topics: &Topics) -> Vec<Schedule> {
    let reader = root.reader();
    if root.value("schedules").is_some_and(|value| value.get_ref().is_table()) {
        let title = "`schedules` is a table; it must be an array of tables".to_owned();
        let hint = "write [[schedules]], with two brackets, above each schedule";
        reader.refuse(root.key_at("schedules"), title, hint);
        return Vec::new();
    }
    let Some(entries) = root.list("schedules") else { return Vec::new() };
    if entries.len() > SCHEDULES_MAX {
        let title =
            format!("there are {} schedules; at most {SCHEDULES_MAX} are allowed", entries.len());
        let hint = "let one schedule push a job whose handler pushes the others";
        reader.refuse(root.key_at("schedules"), title, hint);
        return Vec::new();
    }
    let mut names = BTreeSet::new();
    let mut schedules = Vec::with_capacity(entries.len());
    for entry in entries {
        let Some(table) = reader.table("schedules", entry, Some(entry.span())) else { continue };
        let section = Section::open(reader, table, &SCHEDULE);
        for key in ["name", "topic"] {
            if section.value(key).is_none() {
                let hint = format!("add {key} = \"…\"");
                reader.refuse(Some(entry.span()), format!("the schedule has no {key}"), hint);
            }
        }
        schedules.extend(read_schedule(&section, entry.span(), &mut names, topics));
    }
    schedules
}

/// Reads every key, also after a problem, so that all problems are reported.
fn read_schedule(
    section: &Section<'_>,
    at: std::ops::Range<usize>,
    names: &mut BTreeSet<String>,
    topics: &Topics,
) -> Option<Schedule> {
    let missed = [("skip", Missed::Skip), ("once", Missed::Once), ("all", Missed::All)];
    let name = read_name(section, names);
    let topic = read_topic(section, topics);
    let when = read_when(section, at);
    let payload = read_payload(section, topic.as_ref(), topics);
    let missed = section.choice("missed", &missed).unwrap_or_default();
    let window = section.duration("window", Duration::ZERO..=LONGEST);
    Some(Schedule {
        name: name?,
        topic: topic?,
        when: when?,
        payload: payload?,
        missed,
        window: window.unwrap_or(Duration::from_secs(3_600)),
    })
}

fn read_name(section: &Section<'_>, names: &mut BTreeSet<String>) -> Option<String> {
    let name = section.text("name")?;
    let (title, hint) = if let Err(error) = check_name(&name) {
        (error.to_string(), "choose another name; it is part of Redis keys and of log lines")
    } else if !names.insert(name.clone()) {
        let title = format!("two schedules have the name {name:?}");
        (title, "choose unique names; runners identify a tick by the name")
    } else {
        return Some(name);
    };
    section.reader().refuse(section.value_at("name"), title, hint);
    None
}

/// Reads the topic, which the manifest must serve. Otherwise the pushed jobs would never run.
fn read_topic(section: &Section<'_>, topics: &Topics) -> Option<TopicName> {
    let text = section.text("topic")?;
    let (title, hint) = match TopicName::new(&text) {
        Err(error) => (error.to_string(), "write one topic name, not a pattern".to_owned()),
        Ok(name) if topics.find(&name).is_some() => return Some(name),
        Ok(name) => {
            let hint = match nearest(name.as_str(), topics.named.keys().map(TopicName::as_str)) {
                Some(like) => format!("did you mean {like:?}?"),
                None => format!("add [topics.\"{name}\"], or write a topic of this manifest"),
            };
            (format!("topic `{name}` of this schedule is not in the manifest"), hint)
        }
    };
    section.reader().refuse(section.value_at("topic"), title, hint);
    None
}

/// Reads `cron` with `tz`, or `every`.
fn read_when(section: &Section<'_>, at: std::ops::Range<usize>) -> Option<When> {
    let reader = section.reader();
    let cron = section.text("cron");
    let zone = section.text("tz");
    let every = section.duration("every", EVERY_RANGE);
    match (section.value("cron"), section.value("every")) {
        (None, None) => {
            let hint = "add cron = \"0 3 * * *\" or every = \"5m\"";
            reader.refuse(Some(at), "the schedule has neither `cron` nor `every`".to_owned(), hint);
            None
        }
        (Some(_), Some(_)) => {
            let title = "the schedule has both `cron` and `every`".to_owned();
            reader.refuse(section.key_at("every"), title, "keep one of the two");
            None
        }
        (None, Some(_)) => {
            if section.value("tz").is_some() {
                let title = "`tz` does not apply to `every`, which counts from 1970-01-01 UTC";
                reader.refuse(section.key_at("tz"), title.to_owned(), "remove `tz`, or use `cron`");
            }
            every.map(When::Every)
        }
        (Some(_), None) => {
            // A zone that is not text was refused.
            let has_zone = section.value("tz").is_none() || zone.is_some();
            let zone = zone.as_deref().unwrap_or("UTC");
            let when = read_cron(section, cron.as_deref(), zone);
            when.filter(|_| has_zone)
        }
    }
}

/// Checks the zone also if the line is invalid, so that both problems are reported.
fn read_cron(section: &Section<'_>, line: Option<&str>, zone: &str) -> Option<When> {
    let reader = section.reader();
    let zone = match check_zone(zone) {
        Ok(()) => Some(zone),
        Err(error) => {
            let hint = match nearest(zone, zones().iter().map(String::as_str)) {
                Some(like) => format!("did you mean {like:?}?"),
                None => "write a name such as \"Europe/Berlin\" or \"UTC\"".to_owned(),
            };
            reader.refuse(section.value_at("tz"), format!("`tz`: {error}"), hint);
            None
        }
    };
    match When::cron(line?, zone.unwrap_or("UTC")) {
        Ok(when) => zone.map(|_| when),
        Err(error) => {
            let hint = match &error {
                ScheduleError::NeverFires(_) => {
                    "choose a day that exists; \"L\" is the last day of the month"
                }
                _ => "write it as \"0 3 * * *\": minute, hour, day, month, weekday",
            };
            reader.refuse(section.value_at("cron"), format!("`cron`: {error}"), hint);
            None
        }
    }
}

/// The payload, at most as long as the topic allows.
fn read_payload(
    section: &Section<'_>,
    topic: Option<&TopicName>,
    topics: &Topics,
) -> Option<Bytes> {
    let payload = json::read_payload(section)?;
    let most = topic.and_then(|name| topics.find(name)).map(|topic| topic.limits.payload);
    if let Some(most) = most.filter(|most| payload.len() > *most) {
        let title =
            format!("`payload` is {} bytes long; the topic allows at most {most}", payload.len());
        let hint = "shorten it, or raise sandbox.payload of the topic";
        section.reader().refuse(section.value_at("payload"), title, hint);
        return None;
    }
    Some(payload)
}
