//! Many jobs as one JSON array: a single invalid job refuses the array.

use std::fmt;

use duebox_job::JobId;
use duebox_queue::NewJob;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::http::problem::Problem;
use crate::service::due::DueCheck;
use crate::service::written_job::{TopicDefaults, WrittenJob};

/// Maximum number of jobs in an array.
const JOBS_MAX: usize = 10_000;

/// The jobs of an array, as written.
pub(super) struct JobArray<'a>(Vec<&'a RawValue>);

impl<'a> JobArray<'a> {
    /// Reads an array of at most [`JOBS_MAX`] jobs.
    pub(super) fn read(json: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(json).map_err(|error| {
            Problem::bad(
                error.to_string(),
                "send an array of jobs; send more than 10,000 as application/x-ndjson",
            )
        })
    }

    /// The jobs. Those without an id get a generated id, or `key` with a number.
    pub(super) fn jobs(
        self,
        defaults: TopicDefaults,
        key: Option<&JobId>,
    ) -> Result<Vec<NewJob>, Problem> {
        let mut jobs = Vec::with_capacity(self.0.len());
        for (at, json) in self.0.into_iter().enumerate() {
            let id = key.map(|key| numbered(key, at as u64 + 1)).transpose()?;
            let job = WrittenJob::read(json.get().as_bytes())
                .and_then(|written| written.job(defaults, id.as_ref()));
            let job = job.map_err(|why| {
                let field = match why.field {
                    Some(field) => format!("[{at}].{field}"),
                    None => format!("[{at}]"),
                };
                Problem::from(why).of(field)
            })?;
            jobs.push(job);
        }
        Ok(jobs)
    }
}

/// Checks the due times of jobs.
pub(super) fn check_dues(jobs: &[NewJob], check: &DueCheck) -> Result<(), Problem> {
    let checked = |(at, job): (usize, &NewJob)| {
        check.check(job.due).map_err(|bad| Problem::from(bad).of(format!("[{at}].at")))
    };
    jobs.iter().enumerate().try_for_each(checked)
}

/// The id of one of several jobs that share an Idempotency-Key.
pub(super) fn numbered(key: &JobId, number: u64) -> Result<JobId, Problem> {
    JobId::new(format!("{key}-{number}")).map_err(|error| {
        Problem::bad(error.to_string(), "send a shorter key").of("Idempotency-Key")
    })
}

impl<'de: 'a, 'a> Deserialize<'de> for JobArray<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(JobArrayVisitor)
    }
}

struct JobArrayVisitor;

impl<'de> Visitor<'de> for JobArrayVisitor {
    type Value = JobArray<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut jobs = Vec::new();
        while let Some(job) = entries.next_element()? {
            if jobs.len() == JOBS_MAX {
                return Err(A::Error::custom("an array may have at most 10,000 jobs"));
            }
            jobs.push(job);
        }
        Ok(JobArray(jobs))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DEFAULTS: TopicDefaults = TopicDefaults { delay: Duration::ZERO, payload_max: 10 };

    #[test]
    fn jobs_that_share_a_key_are_numbered() {
        let key = JobId::new("k").unwrap();
        let jobs = JobArray::read(br#"[{}, {"id":"own"}, {}]"#).unwrap().jobs(DEFAULTS, Some(&key));
        let ids: Vec<String> = jobs.unwrap().iter().map(|job| job.id.to_string()).collect();
        assert_eq!(ids, ["k-1", "own", "k-3"]);
    }

    #[test]
    fn one_invalid_job_refuses_all() {
        assert!(JobArray::read(br#"[{}, {}"#).is_err());
        assert!(JobArray::read(br#"[{}, {"in":"x"}]"#).unwrap().jobs(DEFAULTS, None).is_err());
        let most = format!("[{}{{}}]", "{},".repeat(JOBS_MAX - 1));
        assert_eq!(JobArray::read(most.as_bytes()).unwrap().0.len(), JOBS_MAX);
        assert!(JobArray::read(format!("[{}{{}}]", "{},".repeat(JOBS_MAX)).as_bytes()).is_err());
    }
}
