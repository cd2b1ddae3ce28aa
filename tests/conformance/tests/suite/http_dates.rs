//! Dates in Retry-After. Each SDK parses them in its own way, so all are checked against the
//! calendar: a date in every week of the coming year gives the delay until then.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module, services};
use duebox_sandbox::Instances;
use jiff::{Timestamp, ToSpan as _};

/// The longest delay of a handler is 365 days.
const WEEKS: i64 = 52;

#[test]
fn a_date_in_any_week_gives_the_delay_until_then() {
    let services = services();
    let instances = Instances { snapshot: true, ..Instances::default() };
    for language in ["rust", "go", "as"] {
        let reach = format!("reach-{language}");
        let module = Module::with_services(&reach, BTreeMap::new(), instances, &services);
        for week in 0..WEEKS {
            let wait = (week * 7 * 24).hours().minutes(30 + week);
            let before = Timestamp::now();
            let date = before + wait;
            let shown = date.strftime("%a,%%20%d%%20%b%%20%Y%%20%H:%M:%S%%20GMT");
            let script = format!("send GET {{server}}/answer/503?retry-after={shown}; verdict");
            let mut job = Attempt::new("");
            job.headers.insert("script".to_owned(), services.substitute(&script));
            let run = module.run(&job);
            let after = Timestamp::now();
            let asked =
                run.retry_after_ms().unwrap_or_else(|| panic!("{language} {shown}: {run:?}"));
            // The date has no fraction of a second, and the handler read its clock during the run.
            let longest = date.as_millisecond() - before.as_millisecond();
            let shortest = date.as_millisecond() - 1_000 - after.as_millisecond();
            let asked = i64::try_from(asked).unwrap_or(i64::MAX);
            assert!((shortest..=longest).contains(&asked), "{language} {shown}: {asked}");
        }
    }
}
