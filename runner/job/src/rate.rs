//! A rate as text: `100/s`, `30/m`, `5000/h`, `1/d`.

use std::time::Duration;

/// How many jobs of a topic may start in a span of time, on all runners together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    jobs: u32,
    per: Duration,
}

/// An invalid rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The text does not follow the form.
    #[error(
        "{0:?} is not a rate; write jobs per time, such as \"100/s\", \"30/m\", \"500/h\" or \"1/d\""
    )]
    Form(String),
    /// The rate is zero.
    #[error("a rate of zero runs nothing; pause the topic instead")]
    Zero,
    /// The rate is above 1,000,000 jobs a second.
    #[error("{0:?} is more than 1,000,000 jobs a second; leave the rate out")]
    TooHigh(String),
}

const SPANS: [(&str, u64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

impl Rate {
    /// Reads a rate of 1 a day to 1,000,000 a second.
    ///
    /// # Errors
    /// [`RateError`] if the text has another form, or is out of range.
    pub fn parse(text: &str) -> Result<Self, RateError> {
        let form = || RateError::Form(text.to_owned());
        let (jobs, span) = text.trim().split_once('/').ok_or_else(form)?;
        if jobs.is_empty() || !jobs.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(form());
        }
        let jobs: u64 = jobs.parse().map_err(|_| form())?;
        let (_, seconds) = SPANS.iter().find(|(name, _)| *name == span).ok_or_else(form)?;
        if jobs == 0 {
            return Err(RateError::Zero);
        }
        match u32::try_from(jobs) {
            Ok(count) if jobs <= 1_000_000 * seconds => {
                Ok(Self { jobs: count, per: Duration::from_secs(*seconds) })
            }
            _ => Err(RateError::TooHigh(text.to_owned())),
        }
    }

    /// The time between two jobs, in µs.
    pub fn interval_us(self) -> f64 {
        self.per.as_micros() as f64 / f64::from(self.jobs)
    }

    /// The share of one of several equal parts; at least one job in 64 days.
    pub fn part(self, parts: u32) -> Self {
        Self { jobs: self.jobs, per: self.per * parts.clamp(1, 64) }
    }

    /// The default burst: the jobs of a tenth of a second, at least one.
    pub fn natural_burst(self) -> u32 {
        ((100_000.0 / self.interval_us()) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_spans_between_jobs() {
        for (text, us, burst) in
            [("100/s", 10_000.0, 10), ("30/m", 2_000_000.0, 1), ("1/d", 86_400e6, 1)]
        {
            let rate = Rate::parse(text).unwrap();
            assert_eq!((rate.interval_us(), rate.natural_burst()), (us, burst), "{text}");
        }
    }

    #[test]
    fn parts_make_up_the_whole() {
        let rate = Rate::parse("100/s").unwrap();
        assert_eq!(rate.part(4).interval_us(), 40_000.0);
        assert_eq!((rate.part(1), rate.part(0)), (rate, rate));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "100", "/s", "-1/s", "1.5/s", "1/w", "1/ s", "one/s"] {
            assert!(matches!(Rate::parse(text), Err(RateError::Form(_))), "{text}");
        }
        assert_eq!(Rate::parse("0/s"), Err(RateError::Zero));
        assert!(matches!(Rate::parse("1000001/s"), Err(RateError::TooHigh(_))));
        assert!(matches!(Rate::parse("99999999999/d"), Err(RateError::TooHigh(_))));
    }
}
