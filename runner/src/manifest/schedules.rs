//! `[[schedules]]`: jobs that are pushed at fixed times, each checked with the topic it pushes to.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;

use super::json;
use super::keys::{SCHEDULE, nearest};
use super::section::Section;
use super::topic::LONGEST;
use super::topics::Topics;
use crate::schedule::{EVERY_RANGE, Missed, Schedule, ScheduleError, When, check_name, zones};

/// Schedules a manifest may have.
const SCHEDULES_MAX: usize = 1_000;

/// Reads every entry of `[[schedules]]`.
pub(super) fn read_schedules(root: &Section<'_>, topics: &Topics) -> Vec<Schedule> {
    let reader = root.reader();
    if root.value("schedules").is_some_and(|value| value.get_ref().is_table()) {
        let title = "`schedules` is a table; it must be a list of tables".to_owned();
        let hint = "write [[schedules]], with two brackets, above each schedule";
        reader.refuse(root.key_at("schedules"), title, hint);
        return Vec::new();
    }
    let Some(entries) = root.list("schedules") else { return Vec::new() };
    if entries.len() > SCHEDULES_MAX {
        let title =
            format!("there are {} schedules; at most {SCHEDULES_MAX} are allowed", entries.len());
        let hint = "let one schedule push a job that pushes the others";
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
                reader.refuse(Some(entry.span()), format!("a schedule has no {key}"), hint);
            }
        }
        schedules.extend(read_schedule(&section, entry.span(), &mut names, topics));
    }
    schedules
}

/// Reads every key, whatever is wrong with the others, so that all problems are told.
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
        (error.to_string(), "choose another name; it stands in keys of Redis and in logs")
    } else if !names.insert(name.clone()) {
        let title = format!("there are two schedules with the name {name:?}");
        (title, "give each a name of its own: runners agree on a tick by it")
    } else {
        return Some(name);
    };
    section.reader().refuse(section.value_at("name"), title, hint);
    None
}

/// The topic, which the manifest must serve: a job that nobody runs would be pushed for ever.
fn read_topic(section: &Section<'_>, topics: &Topics) -> Option<TopicName> {
    let text = section.text("topic")?;
    let (title, hint) = match TopicName::new(&text) {
        Err(error) => (error.to_string(), "name one topic, not a pattern".to_owned()),
        Ok(name) if topics.find(&name).is_some() => return Some(name),
        Ok(name) => {
            let hint = match nearest(name.as_str(), topics.named.keys().map(TopicName::as_str)) {
                Some(like) => format!("did you mean {like:?}?"),
                None => format!("add [topics.\"{name}\"], or name a topic of this manifest"),
            };
            (format!("the topic `{name}` of this schedule is not in the manifest"), hint)
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
            reader.refuse(
                Some(at),
                "a schedule says not when: it has no cron and no every".to_owned(),
                hint,
            );
            None
        }
        (Some(_), Some(_)) => {
            let title = "a schedule has both cron and every".to_owned();
            reader.refuse(section.key_at("every"), title, "keep one of the two");
            None
        }
        (None, Some(_)) => {
            if section.value("tz").is_some() {
                let title = "`tz` says nothing about `every`, which counts from 1970 in UTC";
                reader.refuse(section.key_at("tz"), title.to_owned(), "remove `tz`, or use cron");
            }
            every.map(When::Every)
        }
        (Some(_), None) => {
            if section.value("tz").is_some() && zone.is_none() {
                return None;
            }
            read_cron(section, &cron?, zone.as_deref().unwrap_or("UTC"))
        }
    }
}

fn read_cron(section: &Section<'_>, line: &str, zone: &str) -> Option<When> {
    let error = match When::cron(line, zone) {
        Ok(when) => return Some(when),
        Err(error) => error,
    };
    let (key, hint) = match &error {
        ScheduleError::Zone(zone) => (
            "tz",
            match nearest(zone, zones().iter().map(String::as_str)) {
                Some(like) => format!("did you mean {like:?}?"),
                None => "write a name such as \"Europe/Berlin\" or \"UTC\"".to_owned(),
            },
        ),
        ScheduleError::NeverFires(_) => {
            ("cron", "choose a day that exists; \"L\" is the last of each month".to_owned())
        }
        _ => ("cron", "write it as \"0 3 * * *\": minute, hour, day, month, weekday".to_owned()),
    };
    section.reader().refuse(section.value_at(key), format!("`{key}`: {error}"), hint);
    None
}

/// The payload, no longer than the topic takes.
fn read_payload(
    section: &Section<'_>,
    topic: Option<&TopicName>,
    topics: &Topics,
) -> Option<Bytes> {
    let payload = json::read_payload(section)?;
    let most = topic.and_then(|name| topics.find(name)).map(|topic| topic.limits.payload);
    if let Some(most) = most.filter(|most| payload.len() > *most) {
        let title =
            format!("`payload` is {} bytes long; the topic takes {most} at most", payload.len());
        let hint = "shorten it, or raise sandbox.payload of the topic";
        section.reader().refuse(section.value_at("payload"), title, hint);
        return None;
    }
    Some(payload)
}
