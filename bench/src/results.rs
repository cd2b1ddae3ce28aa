//! What has been measured: values per row and repeat, and the lines of the plots.
//!
//! A row is judged by its median. A row that was not measured has no values.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rows::{Row, Target};

/// A plot of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plot {
    /// Jobs per second by batch size.
    Batches,
    /// Percent of the jobs by lateness.
    Lateness,
    /// Jobs per second by number of pending jobs.
    Backlog,
}

/// One line of a plot.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub(crate) plot: Plot,
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// CPU time of a job, µs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cost {
    #[serde(rename = "way")]
    pub(crate) variant: &'static str,
    pub(crate) redis_us: f64,
    /// CPU time of the daemon without the sandbox: its Redis client and its own work.
    pub(crate) daemon_us: f64,
    pub(crate) sandbox_us: f64,
}

/// Values by row, in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Results {
    rows: BTreeMap<Row, Vec<f64>>,
    pub(crate) lines: Vec<Line>,
    pub(crate) costs: Vec<Cost>,
}

/// How a row compares with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judgement {
    Pass,
    Miss,
    /// The row has no target.
    Shown,
}

/// Median and range of a row's values.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Results {
    /// Adds a value to a row.
    pub(crate) fn add(&mut self, row: Row, figure: f64) {
        self.rows.entry(row).or_default().push(figure);
    }

    /// The values of a row; empty if it was not measured.
    pub(crate) fn of(&self, row: Row) -> &[f64] {
        self.rows.get(&row).map_or(&[], Vec::as_slice)
    }

    /// The spread of a row; `None` if it was not measured.
    pub(crate) fn spread(&self, row: Row) -> Option<Spread> {
        let mut sorted = self.of(row).to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { median: median(&sorted), min, max })
    }

    /// Compares the median of a row with its target; `None` if it was not measured.
    pub(crate) fn judge(&self, row: Row) -> Option<Judgement> {
        let median = self.spread(row)?.median;
        let word = |good| if good { Judgement::Pass } else { Judgement::Miss };
        Some(match row.spec().target {
            Target::AtLeast(wanted) => word(median >= wanted),
            Target::AtMost(wanted) => word(median <= wanted),
            Target::AtLeastUnless(wanted, other, enough) => {
                let other = self.spread(other).is_some_and(|other| other.median >= enough);
                word(median >= wanted || other)
            }
            Target::None => Judgement::Shown,
        })
    }
}

/// The median of sorted values.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn a_row_is_judged_by_its_median_or_by_its_alternative() {
        let mut figures = Results::default();
        assert_eq!(figures.judge(Row::LateP99), None);
        for ms in [0.2, 0.6, 50.0] {
            figures.add(Row::LateP99, ms);
        }
        assert_eq!(figures.judge(Row::LateP99), Some(Judgement::Pass));
        figures.add(Row::LateP99, 60.0);
        assert_eq!(figures.judge(Row::LateP99), Some(Judgement::Miss));
        figures.add(Row::LateMax, 1.0);
        assert_eq!(figures.judge(Row::LateMax), Some(Judgement::Shown));

        figures.add(Row::RunnersRatio, 1.1);
        assert_eq!(figures.judge(Row::RunnersRatio), Some(Judgement::Miss));
        figures.add(Row::RunnersRedis, 96.0);
        assert_eq!(figures.judge(Row::RunnersRatio), Some(Judgement::Pass));
    }
}
