//! A plot of one figure over time, as SVG.

use anyhow::Context as _;
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 260);

/// A curve with its unit.
pub(crate) struct Curve<'c> {
    pub(crate) name: &'c str,
    /// Seconds and the figure at that time.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws the curves below each other, each from 0.
pub(crate) fn draw(curves: &[Curve<'_>]) -> anyhow::Result<String> {
    let height = SIZE.1 * u32::try_from(curves.len())?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (SIZE.0, height)).into_drawing_area();
        area.fill(&WHITE)?;
        for (area, curve) in area.split_evenly((curves.len(), 1)).iter().zip(curves) {
            let right = curve.points.iter().map(|point| point.0).fold(1.0, f64::max);
            let top = curve.points.iter().map(|point| point.1).fold(1.0, f64::max);
            let mut chart = ChartBuilder::on(area)
                .margin(14)
                .x_label_area_size(40)
                .y_label_area_size(70)
                .build_cartesian_2d(0.0..right, 0.0..top * 1.1)?;
            chart.configure_mesh().x_desc("seconds").y_desc(curve.name).draw()?;
            let line = LineSeries::new(curve.points.iter().copied(), RGBColor(0, 114, 178));
            chart.draw_series(line)?;
        }
        area.present().context("cannot draw a plot")?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_curve_has_its_name() {
        let curve = |name| Curve { name, points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let svg = draw(&[curve("memory, MiB"), curve("threads")]).unwrap();
        assert!(svg.contains("memory, MiB") && svg.contains("threads"));
    }
}
