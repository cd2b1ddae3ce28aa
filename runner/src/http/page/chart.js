// Recent samples of a topic, and their sparklines. The daemon's samples come first; the page adds one sample per
// second and keeps one of every five seconds.

import { count, draw, rate, setText, span } from './dom.js';

export const WINDOW_MS = 600_000;
/** The shortest time range of a line. */
const LEAST_MS = 60_000;
const KEEP_EVERY_MS = 5_000;
const RATE_OVER_MS = 10_000;

/** The lines of a topic: the values of a series, and the text of the last value. */
export const LINES = {
  rate: { title: 'Rate', values: (series) => series.rates(), say: rate, floor: 1 },
  depth: { title: 'Depth', values: (series) => series.points.map((point) => point.jobs), say: count, floor: 4 },
  late: { title: 'Lateness', values: (series) => series.points.map((point) => point.late), say: (ms) => (ms ? span(ms) : '–'), floor: 1_000 },
};

/** The samples of one topic, the oldest first. */
export class Series {
  constructor() {
    this.points = [];
  }

  /** Adds the daemon's samples from before the page was opened. */
  seed(times, samples) {
    const first = this.points[0]?.at ?? Infinity;
    const from = times.length - samples.jobs.length;
    const sampled = samples.jobs.map((jobs, at) => ({
      at: times[from + at], jobs, attempts: samples.attempts[at], failed: samples.failed[at], late: samples.late_ms[at],
    }));
    this.points = [...sampled.filter((point) => point.at < first), ...this.points];
  }

  /** Adds a sample of the current state. */
  add(at, state) {
    const jobs = state.pending + state.ready + state.blocked + state.unack + state.retry;
    const point = { at, jobs, attempts: state.attempts, failed: state.failed, late: state.late_ms ?? 0 };
    const [before, last] = this.points.slice(-2);
    // The last point is replaced until the one before it is old enough.
    if (last && before && last.at - before.at < KEEP_EVERY_MS) this.points.pop();
    this.points.push(point);
    while (this.points[0].at < at - WINDOW_MS) this.points.shift();
  }

  /** Attempts per second at each point: the mean of the ten seconds before it. */
  rates() {
    let from = 0;
    return this.points.map((point, at) => {
      while (from + 1 < at && this.points[from + 1].at <= point.at - RATE_OVER_MS) from += 1;
      const first = this.points[Math.min(from, at)];
      const ms = point.at - first.at;
      return ms > 0 ? Math.max(0, ((point.attempts - first.attempts) / ms) * 1_000) : 0;
    });
  }

  rateNow() {
    return this.points.length > 1 ? this.rates().at(-1) : 0;
  }
}

/** A line of one kind; `show` draws a series into it. */
export class Sparkline {
  constructor(kind) {
    this.line = LINES[kind];
    this.value = document.createElement('span');
    this.value.className = 'value';
    this.area = draw('path', { class: 'area' });
    this.stroke = draw('path', { class: 'stroke' });
    this.svg = draw('svg', { viewBox: '0 0 100 30', preserveAspectRatio: 'none', role: 'img', class: 'chart' }, this.area, this.stroke);
    this.reach = document.createElement('small');
    this.node = document.createElement('div');
    this.node.className = `spark ${kind}`;
    this.node.append(this.value, this.svg);
  }

  /** Draws a series; what is not known of it is a dash. */
  show(series, isKnown = true) {
    const values = this.line.values(series);
    const last = values.at(-1) ?? 0;
    const most = Math.max(this.line.floor, ...values);
    const end = series.points.at(-1)?.at ?? 0;
    // The known samples fill the width: a daemon that has just started has less than ten minutes of them.
    const width = Math.min(WINDOW_MS, Math.max(LEAST_MS, end - (series.points[0]?.at ?? end)));
    const reach = `${Math.round(width / 60_000)} min`;
    setText(this.reach, `last ${reach}`);
    setText(this.value, isKnown ? this.line.say(last) : '–');
    this.node.classList.toggle('none', last === 0);
    this.svg.setAttribute('aria-label', `${this.line.title} in the last ${reach}: now ${this.line.say(last)}, at most ${this.line.say(Math.max(0, ...values))}`);
    if (values.length < 2) return;
    const x = (point) => (100 - ((end - point.at) / width) * 100).toFixed(2);
    const y = (value) => (28.5 - (value / most) * 26).toFixed(2);
    const path = series.points.map((point, at) => `${at ? 'L' : 'M'}${x(point)} ${y(values[at])}`).join('');
    this.stroke.setAttribute('d', path);
    this.area.setAttribute('d', `${path}L100 30L${x(series.points[0])} 30Z`);
  }
}
