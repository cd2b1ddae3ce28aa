//! Writes a page of metrics: one family after the other, each with its name, help and series. The
//! encoder adds the prefix and the suffixes that Prometheus requires.

use std::borrow::Cow;
use std::fmt;

use duebox_job::CountedDurations;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A label: its name and its value.
pub(super) type Label<'l> = (&'static str, Cow<'l, str>);

/// The labels of a series.
pub(super) type Labels<'l> = Vec<Label<'l>>;

/// Name, help and unit of a family.
pub(super) struct About {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
}

/// The page.
pub(super) struct Page<'p>(DescriptorEncoder<'p>);

impl About {
    pub(super) const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help, unit: None }
    }

    pub(super) const fn seconds(name: &'static str, help: &'static str) -> Self {
        Self { name, help, unit: Some(Unit::Seconds) }
    }

    pub(super) const fn bytes(name: &'static str, help: &'static str) -> Self {
        Self { name, help, unit: Some(Unit::Bytes) }
    }
}

/// The label of a topic.
pub(super) fn topic(name: &str) -> Label<'_> {
    ("topic", Cow::Borrowed(name))
}

/// A label whose value is a fixed word.
pub(super) fn word(name: &'static str, value: &'static str) -> Label<'static> {
    (name, Cow::Borrowed(value))
}

/// A label.
pub(super) fn value<'l>(name: &'static str, value: &'l str) -> Label<'l> {
    (name, Cow::Borrowed(value))
}

impl<'p> Page<'p> {
    pub(super) fn new(encoder: DescriptorEncoder<'p>) -> Self {
        Self(encoder)
    }

    pub(super) fn counters<'l, V: EncodeCounterValue>(
        &mut self,
        about: &About,
        series: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let About { name, help, unit } = about;
        let kind = MetricType::Counter;
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in series {
            match labels.is_empty() {
                true => family.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
                false => family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, f64>(&value, None)?,
            }
        }
        Ok(())
    }

    pub(super) fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        about: &About,
        series: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        let About { name, help, unit } = about;
        let kind = MetricType::Gauge;
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, value) in series {
            match labels.is_empty() {
                true => family.encode_gauge(&value)?,
                false => family.encode_family(&labels)?.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    /// Writes a gauge without labels.
    pub(super) fn gauge(&mut self, about: &About, value: impl EncodeGaugeValue) -> fmt::Result {
        self.gauges(about, [(Labels::new(), value)])
    }

    /// Writes a counter without labels.
    pub(super) fn counter(&mut self, about: &About, value: impl EncodeCounterValue) -> fmt::Result {
        self.counters(about, [(Labels::new(), value)])
    }

    /// Writes an info metric; the value of each series is 1.
    pub(super) fn infos<'l>(
        &mut self,
        about: &About,
        series: impl IntoIterator<Item = Labels<'l>>,
    ) -> fmt::Result {
        let About { name, help, unit } = about;
        let kind = MetricType::Info;
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for labels in series {
            family.encode_info(&labels)?;
        }
        Ok(())
    }

    pub(super) fn histograms<'l>(
        &mut self,
        about: &About,
        series: impl IntoIterator<Item = (Labels<'l>, CountedDurations)>,
    ) -> fmt::Result {
        let About { name, help, unit } = about;
        let kind = MetricType::Histogram;
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), kind)?;
        for (labels, counted) in series {
            let bound = |bound: Option<std::time::Duration>| match bound {
                Some(bound) => bound.as_secs_f64(),
                None => f64::INFINITY,
            };
            let buckets: Vec<(f64, u64)> =
                counted.buckets.iter().map(|(upper, count)| (bound(*upper), *count)).collect();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                counted.sum.as_secs_f64(),
                counted.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}
