//! A server may ask to wait until a date. Each SDK reads it in its own way, so all are held to the calendar:
//! a date of every week of the coming year leads to the wait until then.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module, outside};
use duebox_sandbox::Instances;
use jiff::{Timestamp, ToSpan as _};

/// The longest wait that a handler can ask for is 365 days.
const WEEKS: i64 = 52;

#[test]
fn a_date_of_any_week_is_the_wait_until_then() {
    let outside = outside();
    let instances = Instances { snapshot: true, ..Instances::default() };
    for language in ["rust", "go", "as"] {
        let reach = format!("reach-{language}");
        let module = Module::reaching(&reach, BTreeMap::new(), instances, &outside);
        for week in 0..WEEKS {
            let wait = (week * 7 * 24).hours().minutes(30 + week);
            let before = Timestamp::now();
            let date = before + wait;
            let shown = date.strftime("%a,%%20%d%%20%b%%20%Y%%20%H:%M:%S%%20GMT");
            let script = format!("send GET {{server}}/answer/503?retry-after={shown}; verdict");
            let mut job = Attempt::new("");
            job.headers.insert("script".to_owned(), outside.place(&script));
            let run = module.run(&job);
            let after = Timestamp::now();
            let asked =
                run.retry_after_ms().unwrap_or_else(|| panic!("{language} {shown}: {run:?}"));
            // The date has no fraction of a second, and the handler looked at its clock during the run.
            let longest = date.as_millisecond() - before.as_millisecond();
            let shortest = date.as_millisecond() - 1_000 - after.as_millisecond();
            let asked = i64::try_from(asked).unwrap_or(i64::MAX);
            assert!((shortest..=longest).contains(&asked), "{language} {shown}: {asked}");
        }
    }
}
