//! Schedules whose topic is paused. A pause is in Redis, so only a check that asks Redis can tell.

use duebox_job::TopicName;

use crate::cli::support::failure::Failure;
use crate::cli::support::target;
use crate::manifest::{LocatedProblem, Manifest};

/// A warning for each schedule that pushes jobs to a paused topic.
pub(super) async fn schedules(manifest: &Manifest) -> Result<Vec<LocatedProblem>, Failure> {
    let queue = target::connect(manifest).await?;
    let topics: Vec<TopicName> =
        manifest.schedules.iter().map(|schedule| schedule.topic.clone()).collect();
    let depths = queue.depths(&topics).await?;
    let scheduled = manifest.schedules.iter().zip(depths).filter(|(_, depths)| depths.paused);
    let warning = |topic: &TopicName, schedule: &str| LocatedProblem {
        line: None,
        column: None,
        message: format!("{topic} is paused, so the jobs of the schedule {schedule} do not run"),
        hint: format!("run: duebox resume {topic}"),
    };
    Ok(scheduled.map(|(schedule, _)| warning(&schedule.topic, &schedule.name)).collect())
}
