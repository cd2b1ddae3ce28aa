//! The colours of the page as people with each kind of colour blindness see them: colours that meet in one chart
//! or list must differ. Deficiencies are simulated after Machado, Oliveira and Fernandes (2009) at full severity,
//! differences are CIEDE2000.

/// The least difference of two colours that meet. Below 2 they look the same next to each other; from 10 on they
/// can be told apart at a glance.
const LEAST: f64 = 12.0;
/// The least contrast of a mark with the ground (WCAG 1.4.11).
const CONTRAST: f64 = 2.95;
/// The colours that meet in one chart: those of the states. Charts use some of them.
const STATES: [&str; 7] = ["pending", "ready", "unack", "done", "blocked", "retry", "dead"];

type Colour = [f64; 3];
type Matrix = [[f64; 3]; 3];

const NORMAL: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
const PROTAN: Matrix = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
];
const DEUTAN: Matrix = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
];
const TRITAN: Matrix = [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.303900],
];

/// The linear RGB of a colour of the style, of the light (0) or the dark theme (1).
fn colour(name: &str, theme: usize) -> Colour {
    let style = include_str!("page.css");
    let (_, rest) = style.split_once(&format!("--{name}: light-dark(")).expect(name);
    let hex = rest.split([',', ')']).nth(theme).unwrap().trim();
    [1, 3, 5].map(|at| linear(f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0))
}

fn linear(part: f64) -> f64 {
    if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
}

fn times(matrix: &Matrix, colour: Colour) -> Colour {
    matrix.map(|row| row.iter().zip(colour).map(|(factor, part)| factor * part).sum())
}

/// CIE L*a*b* of a linear RGB colour under D65.
fn lab(colour: Colour) -> Colour {
    let xyz = times(
        &[
            [0.433_953, 0.376_219, 0.189_828],
            [0.212_673, 0.715_152, 0.072_175],
            [0.017_758, 0.109_477, 0.872_766],
        ],
        colour.map(|part| part.clamp(0.0, 1.0)),
    );
    let [x, y, z] = xyz.map(|part| match part > 216.0 / 24_389.0 {
        true => part.cbrt(),
        false => (24_389.0 / 27.0 * part + 16.0) / 116.0,
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// CIEDE2000.
fn difference([light1, a1, b1]: Colour, [light2, a2, b2]: Colour) -> f64 {
    let seventh = |chroma: f64| (chroma.powi(7) / (chroma.powi(7) + 25_f64.powi(7))).sqrt();
    let stretch = 1.0 + 0.5 * (1.0 - seventh((a1.hypot(b1) + a2.hypot(b2)) / 2.0));
    let (a1, a2) = (a1 * stretch, a2 * stretch);
    let (chroma1, chroma2) = (a1.hypot(b1), a2.hypot(b2));
    let hue = |a: f64, b: f64| b.atan2(a).to_degrees().rem_euclid(360.0);
    let (hue1, hue2) = (hue(a1, b1), hue(a2, b2));
    let turn = (hue2 - hue1 + 180.0).rem_euclid(360.0) - 180.0;
    let (light, chroma) = ((light1 + light2) / 2.0, (chroma1 + chroma2) / 2.0);
    let mean = (hue1 + turn / 2.0).rem_euclid(360.0);
    let wave = |times: f64, shift: f64| (times * mean + shift).to_radians().cos();
    let t = 1.0 - 0.17 * wave(1.0, -30.0) + 0.24 * wave(2.0, 0.0) + 0.32 * wave(3.0, 6.0)
        - 0.20 * wave(4.0, -63.0);
    let off = (light - 50.0).powi(2);
    let by_light = (light2 - light1) / (1.0 + 0.015 * off / (20.0 + off).sqrt());
    let by_chroma = (chroma2 - chroma1) / (1.0 + 0.045 * chroma);
    let by_hue = 2.0 * (chroma1 * chroma2).sqrt() * (turn / 2.0).to_radians().sin()
        / (1.0 + 0.015 * chroma * t);
    let angle = 60.0 * (-((mean - 275.0) / 25.0).powi(2)).exp();
    let rotation = -angle.to_radians().sin() * 2.0 * seventh(chroma);
    (by_light.powi(2) + by_chroma.powi(2) + by_hue.powi(2) + rotation * by_chroma * by_hue).sqrt()
}

fn contrast(one: Colour, other: Colour) -> f64 {
    let luminance = |colour: Colour| times(&[[0.2126, 0.7152, 0.0722]; 3], colour)[0] + 0.05;
    let (one, other) = (luminance(one), luminance(other));
    one.max(other) / one.min(other)
}

#[test]
fn the_difference_is_that_of_published_examples() {
    // Sharma, Wu and Dalal (2005), pairs 1, 7, 17 and 25.
    for (one, other, expected) in [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, 0.0, 0.0], [50.0, -1.0, 2.0], 2.3669),
        ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
    ] {
        assert!((difference(one, other) - expected).abs() < 1e-3, "{one:?} {other:?}");
    }
}

#[test]
fn colours_that_meet_differ_for_every_kind_of_colour_vision() {
    let mut close = Vec::new();
    for (theme, named) in ["light", "dark"].into_iter().enumerate() {
        for (eyes, sees) in
            [("all", NORMAL), ("protan", PROTAN), ("deutan", DEUTAN), ("tritan", TRITAN)]
        {
            for (at, one) in STATES.iter().enumerate() {
                for other in &STATES[at + 1..] {
                    let [one_seen, other_seen] =
                        [one, other].map(|name| lab(times(&sees, colour(name, theme))));
                    let differ = difference(one_seen, other_seen);
                    if differ < LEAST {
                        close.push(format!("{named}, {eyes}: {one} and {other}: {differ:.1}"));
                    }
                }
            }
        }
        for name in STATES {
            let with = contrast(colour(name, theme), colour("panel", theme));
            assert!(with >= CONTRAST, "{named}: {name} has a contrast of {with:.2}");
        }
    }
    assert!(close.is_empty(), "{close:#?}");
}

/// A tone of the charts is the colour of a state, so that the test above covers all of them.
#[test]
fn charts_use_the_colours_of_states_and_no_two_classes_look_the_same() {
    let style = include_str!("page.css");
    for rule in style.split(".t-").skip(1) {
        let (_, value) = rule.split_once("--tone: var(--").unwrap();
        let (name, _) = value.split_once(')').unwrap();
        assert!(STATES.contains(&name), "{name}");
    }
    let script = include_str!("classes.js");
    let words = |list: &str| {
        let (_, rest) = script.split_once(&format!("const {list} = [")).unwrap();
        rest.split_once(']').unwrap().0.split(',').count()
    };
    assert!(words("CLASSES") <= words("TONES") * (words("TEXTURES") + 1));
}
