//! What the command line and HTTP share: a job as people write it and as they read it, lists of jobs
//! and the timeline of one, values and due times, the timetable of schedules, and pull consumers.
//!
//! Both ways in accept the same input and refuse it with the same words.

pub(crate) mod due;
pub(crate) mod job_list;
pub(crate) mod leased_job;
pub mod pull_consumer;
pub(crate) mod refused_push;
pub(crate) mod schema;
pub(crate) mod timeline;
pub(crate) mod timetable;
pub(crate) mod value;
pub(crate) mod written_job;
