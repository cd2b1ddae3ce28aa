//! What has been measured so far: a figure for each row and repeat, and the lines of the plots.
//!
//! A row is judged by its median. A row without a figure is not there: nothing is filled in.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rows::{Row, Target};

/// A plot of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plot {
    /// Jobs per second by the jobs of a batch.
    Batches,
    /// The part of the jobs, in percent, that is at most so many ms late.
    Lateness,
    /// Jobs per second by the jobs that wait.
    Backlog,
}

/// One line of a plot.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub(crate) plot: Plot,
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Where a job's processor time goes, µs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cost {
    pub(crate) way: &'static str,
    pub(crate) redis_us: f64,
    /// What the daemon takes beside the sandbox: its client and its own work.
    pub(crate) daemon_us: f64,
    pub(crate) sandbox_us: f64,
}

/// Figures by row, in the order in which they were measured.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    rows: BTreeMap<Row, Vec<f64>>,
    pub(crate) lines: Vec<Line>,
    pub(crate) costs: Vec<Cost>,
}

/// How a row came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Judgement {
    Pass,
    Miss,
    /// The row has no target.
    Shown,
}

/// The middle of a row's figures and their range.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Figures {
    /// Adds a figure to a row.
    pub(crate) fn add(&mut self, row: Row, figure: f64) {
        self.rows.entry(row).or_default().push(figure);
    }

    /// A row's figures; none if it was not measured.
    pub(crate) fn of(&self, row: Row) -> &[f64] {
        self.rows.get(&row).map_or(&[], Vec::as_slice)
    }

    /// A row's spread; none if it was not measured.
    pub(crate) fn spread(&self, row: Row) -> Option<Spread> {
        let mut sorted = self.of(row).to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Spread { median: median(&sorted), min, max })
    }

    /// How a row came out, by its median; none if it was not measured.
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

/// The middle of sorted figures.
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
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn a_row_is_judged_by_its_median_and_one_by_either_of_two() {
        let mut figures = Figures::default();
        assert_eq!(figures.judge(Row::LateP99), None);
        for ms in [1.0, 2.9, 50.0] {
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
