//! What the sentinels of the manifest say of the primary.

use duebox_queue::{SentinelReport, SentinelView};
use serde::Serialize;

/// The least number of sentinels with which the failure of one is tolerated.
const SENTINELS_MIN: usize = 3;

#[derive(Serialize)]
pub(super) struct Sentinels {
    master: String,
    sentinels: Vec<Sentinel>,
}

#[derive(Serialize)]
struct Sentinel {
    address: String,
    /// Where it sees the primary.
    primary: Option<String>,
    replicas: Option<u64>,
    quorum: Option<u64>,
    /// Why it names no primary.
    problem: Option<String>,
}

impl From<SentinelReport> for Sentinels {
    fn from(SentinelReport { master, sentinels }: SentinelReport) -> Self {
        Self { master, sentinels: sentinels.into_iter().map(Sentinel::from).collect() }
    }
}

impl From<SentinelView> for Sentinel {
    fn from(SentinelView { address, primary }: SentinelView) -> Self {
        let (primary, problem) = match primary {
            Ok(primary) => (Some(primary), None),
            Err(problem) => (None, Some(problem)),
        };
        Self {
            address,
            replicas: primary.as_ref().map(|primary| primary.replicas),
            quorum: primary.as_ref().map(|primary| primary.quorum),
            primary: primary.map(|primary| primary.address),
            problem,
        }
    }
}

impl Sentinels {
    pub(super) fn describe(&self) -> String {
        let answering = || self.sentinels.iter().filter(|sentinel| sentinel.problem.is_none());
        let mut primaries: Vec<&str> =
            answering().filter_map(|sentinel| sentinel.primary.as_deref()).collect();
        primaries.sort_unstable();
        primaries.dedup();
        let replicas = answering().filter_map(|sentinel| sentinel.replicas).max();
        let quorum = answering().filter_map(|sentinel| sentinel.quorum).max();
        format!(
            "{}: primary {}, {} replicas; {} of {} sentinels answer, quorum {}",
            self.master,
            primaries.join(" or "),
            replicas.unwrap_or_default(),
            answering().count(),
            self.sentinels.len(),
            quorum.unwrap_or_default(),
        )
    }

    /// What puts a failover at risk.
    pub(super) fn warnings(&self) -> Vec<String> {
        let problem_of = |sentinel: &Sentinel| {
            let problem = sentinel.problem.as_ref()?;
            Some(format!("the sentinel at {} names no primary: {problem}", sentinel.address))
        };
        let mut warnings: Vec<String> = self.sentinels.iter().filter_map(problem_of).collect();
        let mut primaries =
            self.sentinels.iter().filter_map(|sentinel| sentinel.primary.as_deref());
        let first = primaries.next();
        if primaries.any(|primary| Some(primary) != first) {
            warnings.push(
                "the sentinels name different primaries; a failover is running, or the network is split"
                    .to_owned(),
            );
        }
        if self.sentinels.len() < SENTINELS_MIN {
            warnings.push(format!(
                "redis.url names fewer than {SENTINELS_MIN} sentinels; name all of them, so that any may fail"
            ));
        }
        if self.sentinels.iter().any(|sentinel| sentinel.replicas == Some(0)) {
            warnings.push("the primary has no replica that could take its place".to_owned());
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use duebox_queue::SentinelPrimary;

    use super::*;

    fn report(primaries: &[Option<&str>]) -> Sentinels {
        let view = |primary: &Option<&str>| SentinelView {
            address: "s:26379".to_owned(),
            primary: match primary {
                Some(address) => {
                    let address = (*address).to_owned();
                    Ok(SentinelPrimary { address, replicas: 2, quorum: 2 })
                }
                None => Err("refused".to_owned()),
            },
        };
        let sentinels = primaries.iter().map(view).collect();
        Sentinels::from(SentinelReport { master: "main".to_owned(), sentinels })
    }

    #[test]
    fn what_is_at_risk() {
        let healthy = report(&[Some("a:1"); 3]);
        assert_eq!(healthy.warnings(), [""; 0]);
        assert_eq!(
            healthy.describe(),
            "main: primary a:1, 2 replicas; 3 of 3 sentinels answer, quorum 2"
        );
        let split = report(&[Some("a:1"), Some("b:1"), None]);
        assert!(split.describe().contains("primary a:1 or b:1"), "{}", split.describe());
        let [dead, differ] = split.warnings().try_into().unwrap();
        assert!(dead.contains("s:26379 names no primary: refused"), "{dead}");
        assert!(differ.contains("different primaries"), "{differ}");
        let [few] = report(&[Some("a:1"); 2]).warnings().try_into().unwrap();
        assert!(few.contains("fewer than 3"), "{few}");
    }
}
