//! The steps that use the topic's store.

use std::time::Duration;

use duebox_sdk::{Job, Verdict, info, kv};

/// Runs a step; returns false for a step that is not of this file.
pub(crate) fn step(job: &Job, step: &str, rest: &str) -> Result<bool, Verdict> {
    let mut words = rest.splitn(3, ' ');
    let (key, value) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let ttl = match words.next() {
        Some(ms) => Some(Duration::from_millis(ms.parse()?)),
        None => None,
    };
    let key = if key == "$" { job.payload() } else { key.as_bytes().to_vec() };
    let value = match value.strip_prefix('*') {
        Some(size) => vec![b'x'; size.parse()?],
        None => value.as_bytes().to_vec(),
    };
    let name = String::from_utf8_lossy(&key);
    let answer = match step {
        "get" => kv::get(&key).map(|found| match found {
            Some(found) if found.len() > 99 => format!("{name} has {} bytes", found.len()),
            Some(found) => format!("{name}={}", String::from_utf8_lossy(&found)),
            None => format!("{name} absent"),
        }),
        "set" => kv::set(&key, value, ttl).map(|()| "written".to_owned()),
        "absent" => kv::set_if_absent(&key, value, ttl).map(written),
        "unchanged" => kv::set_if_unchanged(&key, value, ttl).map(written),
        "append" => {
            let longer = |old: Option<Vec<u8>>| [old.unwrap_or_default(), value.clone()].concat();
            let text = |value: Vec<u8>| String::from_utf8_lossy(&value).into_owned();
            kv::update(&key, ttl, longer).map(text)
        }
        "delete" => {
            kv::delete(&key).map(|was| if was { "deleted" } else { "not there" }.to_owned())
        }
        "add" => kv::add(&key, String::from_utf8_lossy(&value).parse()?)
            .map(|sum| format!("{name}={sum}")),
        _ => return Ok(false),
    };
    match answer {
        Ok(words) => info!("{words}"),
        Err(error) => info!("refused: {error}"),
    }
    Ok(true)
}

fn written(is: bool) -> String {
    if is { "written" } else { "not written" }.to_owned()
}
