//! Plots as SVG: lines over a logarithmic axis, and stacked bars.

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::number;
use crate::results::{Cost, Line};

const SIZE: (u32, u32) = (760, 420);
const FONT: (&str, u32) = ("sans-serif", 14);
/// Colours that people with red-green colour blindness can tell apart.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 120, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];
/// Smaller values are drawn at this place of the logarithmic axis.
const SMALLEST: f64 = 0.01;

/// The labels of a plot's axes.
pub(crate) struct AxisLabels {
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
}

/// Draws lines over a logarithmic x axis; the y axis starts at 0.
pub(crate) fn lines(labels: &AxisLabels, lines: &[&Line]) -> anyhow::Result<String> {
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let left = points().map(|point| point.0.max(SMALLEST)).fold(f64::INFINITY, f64::min);
    let right = points().map(|point| point.0.max(SMALLEST)).fold(SMALLEST, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max);
    let mut svg = String::new();
    {
        let area = blank(&mut svg, SIZE)?;
        let across = (left * 0.9..right * 1.1).log_scale();
        let mut chart = ChartBuilder::on(&area)
            .margin(14)
            .x_label_area_size(46)
            .y_label_area_size(78)
            .build_cartesian_2d(across, 0.0..top * 1.08)?;
        chart
            .configure_mesh()
            .light_line_style(BLACK.mix(0.06))
            .label_style(FONT)
            .x_desc(labels.x)
            .y_desc(labels.y)
            .x_label_formatter(&|x| tick(*x))
            .y_label_formatter(&|y| tick(*y))
            .draw()?;
        for (number, line) in lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let points = line.points.iter().map(|&(x, y)| (x.max(SMALLEST), y));
            // A curve with many points needs no dots.
            let dot = if line.points.len() > 20 { 0 } else { 3 };
            let series = LineSeries::new(points, colour.stroke_width(2)).point_size(dot);
            let key =
                move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(3));
            chart.draw_series(series)?.label(line.name.as_str()).legend(key);
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(FONT)
            .draw()?;
        area.present().context("cannot draw a plot")?;
    }
    Ok(svg)
}

/// Draws a stacked bar of CPU time per job for each variant.
pub(crate) fn costs(costs: &[Cost]) -> anyhow::Result<String> {
    const BAR: i32 = 34;
    const LEFT: i32 = 170;
    const RIGHT: i32 = 90;
    let whole = |cost: &Cost| cost.redis_us + cost.daemon_us + cost.sandbox_us;
    let longest = costs.iter().map(whole).fold(1e-3, f64::max);
    let height = BAR * i32::try_from(costs.len())? + 60;
    let mut svg = String::new();
    {
        let area = blank(&mut svg, (SIZE.0, u32::try_from(height)?))?;
        let per_us = f64::from(i32::try_from(SIZE.0)? - LEFT - RIGHT) / longest;
        let text = |words: String, x: i32, y: i32| {
            area.draw(&Text::new(words, (x, y), FONT.into_font().color(&BLACK)))
        };
        for (number, name) in ["Redis", "client and host", "sandbox"].into_iter().enumerate() {
            let x = LEFT + 150 * i32::try_from(number)?;
            area.draw(&Rectangle::new([(x, 14), (x + 14, 28)], COLOURS[number].filled()))?;
            text(name.to_owned(), x + 20, 14)?;
        }
        for (number, cost) in costs.iter().enumerate() {
            let y = 44 + BAR * i32::try_from(number)?;
            text(cost.variant.to_owned(), 12, y + 6)?;
            let mut from_us = 0.0;
            for (part, us) in
                [cost.redis_us, cost.daemon_us, cost.sandbox_us].into_iter().enumerate()
            {
                let at = |us: f64| LEFT + (us * per_us) as i32;
                let corners = [(at(from_us), y), (at(from_us + us), y + BAR - 10)];
                area.draw(&Rectangle::new(corners, COLOURS[part].filled()))?;
                from_us += us;
            }
            let end = LEFT + (from_us * per_us) as i32;
            text(format!("{from_us:.1} µs"), end + 8, y + 6)?;
        }
        area.present().context("cannot draw a plot")?;
    }
    Ok(svg)
}

/// Formats a number at an axis.
fn tick(figure: f64) -> String {
    if figure >= 1_000.0 { number(figure) } else { format!("{}", (figure * 100.0).round() / 100.0) }
}

fn blank(svg: &mut String, size: (u32, u32)) -> anyhow::Result<DrawingArea<SVGBackend<'_>, Shift>> {
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    Ok(area)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Plot;

    #[test]
    fn a_plot_contains_every_line_and_label() {
        let line = |name: &str| Line {
            plot: Plot::Batches,
            name: name.to_owned(),
            points: vec![(0.0, 10.0), (100.0, 2_000.0)],
        };
        let (one, two) = (line("daemon"), line("bare client"));
        let labels = AxisLabels { x: "jobs per batch", y: "jobs/s" };
        let svg = lines(&labels, &[&one, &two]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["daemon", "bare client", "jobs per batch", "jobs/s"] {
            assert!(svg.contains(text), "{text} is missing");
        }
    }

    #[test]
    fn a_bar_shows_its_sum() {
        let cost = Cost { variant: "Rust, fresh", redis_us: 4.0, daemon_us: 2.5, sandbox_us: 6.0 };
        let svg = costs(&[cost]).unwrap();
        assert!(svg.contains("12.5 µs") && svg.contains("Rust, fresh"), "{svg}");
    }
}
