//! Pages of the jobs of one state: every state, in its order, over shards, by the start of an id and by a
//! header, bounded in entries and in bytes.

use std::collections::BTreeSet;
use std::num::NonZero;

use duebox_job::Options;
use duebox_queue::{
    Due, IfExists, JobQuery, JobState, Limits, ListCursor, ListedJob, NewJob, Priority, Verdict,
};

use crate::fixture::{Fixture, drop_it, job, job_in, nack};
use crate::script::LIST_STATE;

impl Fixture {
    /// The jobs of all pages, one after the other.
    async fn all_of(&self, mut query: JobQuery) -> Vec<ListedJob> {
        let mut jobs = Vec::new();
        loop {
            let page = self.queue.list_state(&self.topic, &query).await.unwrap();
            assert!(page.jobs.len() <= query.limit);
            jobs.extend(page.jobs);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return jobs,
            }
        }
    }

    async fn names_of(&self, query: JobQuery) -> Vec<String> {
        self.all_of(query).await.into_iter().map(|job| job.id.to_string()).collect()
    }
}

fn of(state: JobState, limit: usize) -> JobQuery {
    JobQuery { limit, ..JobQuery::new(state) }
}

fn from_customer(job: NewJob, customer: &str) -> NewJob {
    let options = job.options.clone().with_header("customer", customer).unwrap();
    NewJob { options, ..job }
}

fn of_customer(state: JobState, customer: &str) -> JobQuery {
    let header = Some(("customer".to_owned(), customer.to_owned()));
    JobQuery { header, ..of(state, 10) }
}

fn keyed(name: &str) -> NewJob {
    NewJob { options: Options::default().with_key("user-7").unwrap(), ..job(name) }
}

#[tokio::test]
async fn every_state_is_listed_with_the_times_that_a_look_at_the_job_tells() {
    let fixture = Fixture::new().await;
    let rules = Limits { per_key: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    for (name, verdict) in [("tries-again", nack()), ("died", drop_it())] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        fixture.settle(lease, verdict).await;
    }
    fixture.push_job(keyed("runs"), IfExists::Reject).await;
    fixture.lease_only("runs").await;
    fixture.push_job(keyed("blocked"), IfExists::Reject).await;
    fixture.push("waits").await;
    fixture.push_job(job_in("later", 60), IfExists::Reject).await;
    for (state, name) in [
        (JobState::Pending, "later"),
        (JobState::Ready, "waits"),
        (JobState::Blocked, "blocked"),
        (JobState::Unack, "runs"),
        (JobState::Retry, "tries-again"),
        (JobState::Dead, "died"),
    ] {
        let listed = fixture.all_of(of(state, 10)).await;
        let [found] = &listed[..] else { panic!("{state:?}: {listed:?}") };
        let whole = fixture.queue.get(&fixture.topic, &found.id).await.unwrap().unwrap();
        assert_eq!((found.id.to_string().as_str(), whole.state), (name, state));
        let at_ms = match state {
            JobState::Unack => whole.lease.unwrap().expires_at_ms,
            JobState::Dead => whole.dead.unwrap().died_at_ms,
            _ => whole.due_at_ms.unwrap(),
        };
        assert_eq!((found.at_ms, found.failures), (at_ms, whole.failures), "{name}");
    }
    assert!(fixture.all_of(of(JobState::Done, 10)).await.is_empty());
    assert!(fixture.all_of(of(JobState::Held, 10)).await.is_empty());
}

#[tokio::test]
async fn a_failed_job_tells_its_class_and_reason() {
    let fixture = Fixture::new().await;
    for name in ["again", "never"] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        let info = r#"{"class":"trap","reason":"unreachable","attempt":1}"#.to_owned();
        let delay = std::time::Duration::from_secs(60);
        let verdict = match name {
            "again" => Verdict::Nack { delay, max_attempts: 3, info },
            _ => Verdict::Drop { info },
        };
        fixture.settle(lease, verdict).await;
    }
    for (state, failures) in [(JobState::Retry, 1), (JobState::Dead, 0)] {
        let job = fixture.all_of(of(state, 1)).await.remove(0);
        assert_eq!(
            (job.class.as_deref(), job.reason.as_deref()),
            (Some("trap"), Some("unreachable"))
        );
        assert_eq!((job.failures, job.attempt), (failures, Some(1)), "{state:?}");
    }
}

#[tokio::test]
async fn pages_of_any_size_and_any_number_of_shards_miss_nothing() {
    for shards in [1, 4] {
        let fixture = Fixture::new().await;
        let rules = Limits { shards: NonZero::new(shards), ..Limits::default() };
        fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
        // Three of each due time: their ids are their order.
        let names: Vec<String> = (0..60).map(|n| format!("job-{n:02}")).collect();
        let from_ms = fixture.now_ms() + 600_000;
        let due_at_ms = |n: usize| from_ms + n as u64 / 3 * 1_000;
        let jobs: Vec<NewJob> = names
            .iter()
            .enumerate()
            .map(|(n, name)| NewJob { due: Due::At(due_at_ms(n)), ..job(name) })
            .collect();
        fixture.push_many(&jobs, IfExists::Reject).await;
        for limit in [1, 7, 60, 1_000] {
            let found = fixture.names_of(of(JobState::Pending, limit)).await;
            assert_eq!(found, names, "{shards} shards, {limit} a page");
        }
        let id_start = "job-1".to_owned();
        let some = fixture.names_of(JobQuery { id_start, ..of(JobState::Pending, 3) }).await;
        assert_eq!(some, names[10..20], "{shards} shards");
    }
}

#[tokio::test]
async fn priorities_come_in_the_order_in_which_they_are_leased() {
    let fixture = Fixture::new().await;
    for (name, priority) in
        [("low", Priority::Low), ("normal", Priority::Normal), ("high", Priority::High)]
    {
        let options = Options::default().with_priority(priority);
        fixture.push_job(NewJob { options, ..job(name) }, IfExists::Reject).await;
    }
    for limit in [1, 2, 3] {
        assert_eq!(fixture.names_of(of(JobState::Ready, limit)).await, ["high", "normal", "low"]);
    }
}

#[tokio::test]
async fn a_header_is_found_in_every_state_that_keeps_options() {
    let fixture = Fixture::new().await;
    for (name, customer) in [("a", "7"), ("b", "8"), ("c", "7")] {
        fixture.push_job(from_customer(job(name), customer), IfExists::Reject).await;
    }
    // A value that holds the name of the header, and one that is its start.
    fixture.push_job(from_customer(job("d"), "77"), IfExists::Reject).await;
    let other = job("e").options.with_header("other", "customer").unwrap();
    fixture.push_job(NewJob { options: other, ..job("e") }, IfExists::Reject).await;
    assert_eq!(fixture.names_of(of_customer(JobState::Ready, "7")).await, ["a", "c"]);
    let lease = fixture.lease_up_to(1).await.remove(0);
    assert_eq!(fixture.names_of(of_customer(JobState::Unack, "7")).await, ["a"]);
    fixture.settle(lease, drop_it()).await;
    assert_eq!(fixture.names_of(of_customer(JobState::Dead, "7")).await, ["a"]);
    assert_eq!(fixture.names_of(of_customer(JobState::Dead, "8")).await, [""; 0]);
    let refused = fixture.queue.list_state(&fixture.topic, &of_customer(JobState::Done, "7")).await;
    assert!(refused.unwrap_err().to_string().contains("done jobs keep no headers"));
}

#[tokio::test]
async fn a_call_is_bounded_in_entries_and_in_bytes() {
    let fixture = Fixture::new().await;
    let large = "x".repeat(16_000);
    let jobs: Vec<NewJob> = (0..1_500)
        .map(|n| {
            let job = job_in(&format!("job-{n:04}"), 600 + n);
            NewJob { options: job.options.clone().with_header("large", &large).unwrap(), ..job }
        })
        .collect();
    for part in jobs.chunks(100) {
        fixture.push_many(part, IfExists::Reject).await;
    }
    let id_start = "job-1499".to_owned();
    let by_id = JobQuery { id_start, ..of(JobState::Pending, 10) };
    let first = fixture.queue.list_state(&fixture.topic, &by_id).await.unwrap();
    assert_eq!((first.jobs.len(), first.looked_at), (0, 1_000));
    assert!(first.next.is_some());
    assert_eq!(fixture.names_of(by_id).await, ["job-1499"]);
    let first =
        fixture.queue.list_state(&fixture.topic, &of_customer(JobState::Pending, "7")).await;
    let looked_at = first.unwrap().looked_at;
    assert!((200..300).contains(&looked_at), "4 MiB of options: {looked_at}");
}

#[tokio::test]
async fn a_page_goes_on_where_the_last_ended_though_that_job_is_gone() {
    let fixture = Fixture::new().await;
    for (name, seconds) in [("a", 60), ("b", 70), ("c", 80)] {
        fixture.push_job(job_in(name, seconds), IfExists::Reject).await;
    }
    let first = fixture.queue.list_state(&fixture.topic, &of(JobState::Pending, 2)).await.unwrap();
    let next: ListCursor = first.next.unwrap().to_string().parse().unwrap();
    fixture.queue.cancel(&fixture.topic, &crate::fixture::id("b")).await.unwrap();
    let rest = JobQuery { after: Some(next), ..of(JobState::Pending, 2) };
    assert_eq!(fixture.names_of(rest).await, ["c"]);
}

#[tokio::test]
async fn a_malformed_call_is_refused() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let good = ["ready", "", "", "10", "", "", ""];
    let reply: Vec<redis::Value> = LIST_STATE.call(&fixture, &good);
    assert_eq!(reply.len(), 8);
    let mut reasons = BTreeSet::new();
    for (at, value) in [(0, "held"), (1, "soon"), (1, "nan"), (3, "0"), (3, "1001")] {
        let mut args = good;
        args[at] = value;
        let error = LIST_STATE.try_call(&fixture, &args).unwrap_err();
        assert_eq!(error.code(), Some("DUEBOX"), "{args:?}: {error}");
        reasons.insert(error.detail().unwrap_or_default().to_owned());
    }
    assert_eq!(reasons.len(), 3, "{reasons:?}");
}
