//! The alerts of `examples/observability/alerts.yml`, as conditions on one page of metrics. The text of each must be in the
//! alert's expression.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use duebox_harness::eventually;

use crate::support::exposition::{Page, metrics};

/// A part of an alert's expression, and whether it holds on a page.
pub(crate) struct Alert {
    name: &'static str,
    text: &'static str,
    holds: fn(&Page) -> bool,
}

pub(crate) const BREAKER_OPEN: Alert = Alert {
    name: "DueboxBreakerOpen",
    text: "max by (topic) (duebox_breaker_open) == 1",
    holds: |page| page.value("duebox_breaker_open", &[]) == 1.0,
};
/// After a start, all jobs that were counted have died within the time of the alert.
pub(crate) const JOBS_DIE: Alert = Alert {
    name: "DueboxJobsDie",
    text: "(increase(duebox_jobs_settled_total[15m])) + 5",
    holds: |page| {
        let settled = |labels| page.value("duebox_jobs_settled_total", labels);
        settled(&[("verdict", "dead")]) > 0.01 * settled(&[]) + 5.0
    },
};
pub(crate) const MANIFEST_REFUSED: Alert = Alert {
    name: "DueboxManifestRefused",
    text: "min by (instance) (duebox_manifest_valid) == 0",
    holds: |page| page.value("duebox_manifest_valid", &[]) == 0.0,
};
pub(crate) const MODULE_REFUSED: Alert = Alert {
    name: "DueboxModuleRefusedOrRolledBack",
    text: "(increase(duebox_module_changes_total{outcome=~\"refused|rolled_back\"}[15m])) > 0",
    holds: |page| page.value("duebox_module_changes_total", &[("outcome", "refused")]) > 0.0,
};
pub(crate) const TOPICS_WAIT: Alert = Alert {
    name: "DueboxTopicsWaitForModule",
    text: "max(duebox_topics_waiting) > 0",
    holds: |page| page.value("duebox_topics_waiting", &[]) > 0.0,
};
pub(crate) const REDIS_AWAY: Alert = Alert {
    name: "DueboxRedisAway",
    text: "min by (instance) (duebox_redis_up) == 0",
    holds: |page| page.value("duebox_redis_up", &[]) == 0.0,
};
pub(crate) const REDIS_AT_RISK: Alert = Alert {
    name: "DueboxRedisAtRisk",
    text: "max(duebox_redis_memory_used_bytes / duebox_redis_memory_limit_bytes) > 0.85",
    holds: |page| {
        let used = page.value("duebox_redis_memory_used_bytes", &[]);
        used > 0.85 * page.value("duebox_redis_memory_limit_bytes", &[]).max(1.0)
            && page.all("duebox_redis_memory_limit_bytes", &[]).count() == 1
    },
};
pub(crate) const JOBS_LATE: Alert = Alert {
    name: "DueboxJobsLate",
    text: "max by (topic) (duebox_queue_oldest_ready_age_seconds) > 60",
    holds: |page| page.value("duebox_queue_oldest_ready_age_seconds", &[]) > 60.0,
};
/// Most jobs have started more than five seconds late.
pub(crate) const STARTS_LATE: Alert = Alert {
    name: "DueboxStartsLate",
    text: "(rate(duebox_job_lateness_seconds_bucket[5m]))) > 5",
    holds: |page| {
        let in_time = page
            .all("duebox_job_lateness_seconds_bucket", &[])
            .filter(|bucket| bucket.labels["le"].parse::<f64>().is_ok_and(|bound| bound <= 5.0))
            .map(|bucket| bucket.value)
            .fold(0.0, f64::max);
        in_time < 0.99 * page.value("duebox_job_lateness_seconds_count", &[])
    },
};
pub(crate) const FULL: Alert = Alert {
    name: "DueboxFull",
    text: "min by (instance) (duebox_slots_used / duebox_slots) >= 1",
    holds: |page| page.value("duebox_slots_used", &[]) >= page.value("duebox_slots", &[]),
};
pub(crate) const NO_RUNNER: Alert = Alert {
    name: "DueboxNoRunner",
    text: "absent(duebox_build_info)",
    holds: |page| page.all("duebox_build_info", &[]).count() == 0,
};
pub(crate) const REDIS_SLOW: Alert = Alert {
    name: "DueboxRedisSlow",
    text: "(rate(duebox_redis_round_trip_seconds_bucket{connection=\"jobs\"}[5m]))) > 0.25",
    holds: |page| RoundTrips::of(page).are_slow(),
};
pub(crate) const LOG_LINES_DROPPED: Alert = Alert {
    name: "DueboxLogLinesDropped",
    text: "(increase(duebox_log_lines_dropped_total[15m])) > 0",
    holds: |page| page.value("duebox_log_lines_dropped_total", &[]) > 0.0,
};
pub(crate) const LEASES_LOST: Alert = Alert {
    name: "DueboxLeasesLost",
    text: "sum by (topic) (increase(duebox_leases_lost_total[15m])) > 0",
    holds: |page| page.value("duebox_leases_lost_total", &[]) > 0.0,
};

impl Alert {
    pub(crate) fn check_text(&self) {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/observability/alerts.yml");
        let rules = fs::read_to_string(path).unwrap();
        let rule = rules.split("- alert: ").find(|rule| rule.lines().next() == Some(self.name));
        let expression = rule.unwrap().lines().find(|line| line.trim().starts_with("expr: "));
        assert!(expression.unwrap().contains(self.text), "{}: {expression:?}", self.name);
    }

    pub(crate) fn is_raised(&self, at: SocketAddr) -> bool {
        (self.holds)(&metrics(at))
    }

    pub(crate) fn wait_until_raised(&self, at: SocketAddr) {
        self.check_text();
        eventually(&format!("{} is raised", self.name), || self.is_raised(at));
    }

    pub(crate) fn wait_until_gone(&self, at: SocketAddr) {
        eventually(&format!("{} is gone", self.name), || !self.is_raised(at));
    }
}

/// Round trips of the jobs' connection since the start of a daemon.
#[derive(Clone, Copy)]
pub(crate) struct RoundTrips {
    pub(crate) all: f64,
    /// Those of a quarter of a second at most.
    quick: f64,
}

impl RoundTrips {
    pub(crate) fn of(page: &Page) -> Self {
        let jobs = ("connection", "jobs");
        let quick = page.value("duebox_redis_round_trip_seconds_bucket", &[jobs, ("le", "0.25")]);
        Self { all: page.value("duebox_redis_round_trip_seconds_count", &[jobs]), quick }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self { all: self.all - before.all, quick: self.quick - before.quick }
    }

    pub(crate) fn are_slow(self) -> bool {
        self.quick < 0.99 * self.all
    }
}
