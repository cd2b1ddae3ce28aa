// A heat map of times over time: a column for each step, a row for each bucket of the histogram, darker where more
// attempts fell into it, with the quantiles as lines. Its shades differ in lightness only, so they need no colour vision.

import { count, draw, el, many } from './dom.js';
import { EDGE, Plot } from './plot.js';

/** The shades, from few attempts to many. */
const SHADES = 5;
/** At least so many rows are shown. */
const ROWS_MIN = 4;
/** Rows have labels at this distance at least, in px. */
const LABEL_EVERY = 26;

/** A heat map. Its data has `heat`: the `bounds` of the buckets in ms, and for each step the `counts` by bucket. */
export class HeatMap extends Plot {
  constructor(options) {
    super(options);
    this.scaleKeys = el('span', { class: 'shades', 'aria-hidden': 'true' }, 'fewer ',
      Array.from({ length: SHADES }, (_, shade) => el('i', { class: `shade h-${shade}` })), ' more attempts');
    this.node.querySelector('figcaption').append(this.scaleKeys);
  }

  steps() {
    return this.data?.heat.counts.length ?? 0;
  }

  /** The first and the last row with attempts, widened to a few rows. */
  rows() {
    const { bounds, counts } = this.data.heat;
    const used = [...bounds, Infinity].map((_, row) => row).filter((row) => counts.some((step) => step[row] > 0));
    let [low, high] = used.length ? [used[0], used.at(-1)] : [0, ROWS_MIN - 1];
    while (high - low + 1 < ROWS_MIN) {
      if (high < bounds.length) high += 1;
      else low -= 1;
    }
    return [low, high];
  }

  scale(_, bottom) {
    const { bounds } = this.data.heat;
    const [low, high] = this.rows();
    const height = (bottom - EDGE.top) / (high - low + 1);
    this.rowHeight = height;
    this.range = [low, high];
    const edge = (row) => bottom - (row - low) * height;
    const every = Math.ceil(LABEL_EVERY / height);
    const ticks = [];
    for (let row = low; row <= high + 1; row += every) ticks.push([edge(row), row === 0 ? '0' : row > bounds.length ? '∞' : this.say(bounds[row - 1])]);
    // A value stands within the row of its bucket, in proportion.
    const y = (value) => {
      const at = bounds.findIndex((bound) => value <= bound);
      const row = at < 0 ? bounds.length : at;
      const [from, to] = [row ? bounds[row - 1] : 0, bounds[row] ?? value + 1];
      const place = row + (value - from) / (to - from);
      return edge(Math.min(Math.max(place, low), high + 1));
    };
    return { ticks, y };
  }

  marks(x, y) {
    const { counts } = this.data.heat;
    const most = Math.max(1, ...counts.flat());
    const paths = Array.from({ length: SHADES }, () => '');
    const [low, high] = this.range;
    const bottom = EDGE.top + (high - low + 1) * this.rowHeight;
    const gap = this.stepWidth > 4 ? 1 : 0;
    counts.forEach((step, at) => step.forEach((number, row) => {
      if (!number) return;
      const top = bottom - (row - low + 1) * this.rowHeight;
      paths[shadeOf(number, most)] += `M${x(at).toFixed(1)} ${top.toFixed(1)}h${(this.stepWidth - gap).toFixed(1)}v${(this.rowHeight - 1).toFixed(1)}h-${(this.stepWidth - gap).toFixed(1)}Z`;
    }));
    const cells = paths.map((path, shade) => draw('path', { class: `cell h-${shade}`, d: path }));
    this.row = draw('rect', { class: 'row-cursor', x: 0, y: 0, width: 0, height: 0, visibility: 'hidden' });
    // A line has an edge in the ground's colour, so that it can be seen on every shade.
    const lines = this.lines(x, y);
    const edges = lines.map((line) => draw('path', { class: 'line-edge', d: line.getAttribute('d') }));
    return [...cells, ...edges, ...lines, this.row];
  }

  listen() {
    super.listen();
    this.svg.addEventListener('pointermove', (event) => {
      if (!this.range) return;
      const row = this.range[1] - Math.floor((event.clientY - this.svg.getBoundingClientRect().top - EDGE.top) / this.rowHeight);
      this.chosen = row >= this.range[0] && row <= this.range[1] ? row : null;
      this.point(this.at);
    });
  }

  key(event) {
    const moves = { ArrowUp: 1, ArrowDown: -1 };
    if (!(event.key in moves) || !this.range) {
      super.key(event);
      return;
    }
    const [low, high] = this.range;
    this.chosen = Math.max(low, Math.min(high, (this.chosen ?? low - moves[event.key]) + moves[event.key]));
    this.point(this.at ?? this.steps() - 1);
    event.preventDefault();
    event.stopPropagation();
  }

  /** The quantiles of a step, and its attempts in the chosen row or the fullest one. */
  valuesAt(at) {
    const { counts } = this.data.heat;
    const step = counts[at] ?? [];
    const total = step.reduce((sum, number) => sum + number, 0);
    const row = this.chosen ?? (total ? step.indexOf(Math.max(...step)) : null);
    this.mark(at, row);
    const lines = super.valuesAt(at);
    lines.push(el('span', {}, total ? many(total, 'attempt') : 'no attempts'));
    if (row !== null && total) {
      const number = step[row] ?? 0;
      lines.push(el('span', { class: 'in-row' }, `${this.rowName(row)}: `, el('b', {}, count(number)), ` · ${Math.round((100 * number) / total)} %`));
    }
    return lines;
  }

  /** Frames a cell. */
  mark(at, row) {
    const isShown = row !== null && row >= this.range[0] && row <= this.range[1];
    this.row.setAttribute('visibility', isShown ? 'visible' : 'hidden');
    if (!isShown) return;
    const place = { x: EDGE.left + at * this.stepWidth, y: EDGE.top + (this.range[1] - row) * this.rowHeight, width: Math.max(2, this.stepWidth), height: this.rowHeight };
    for (const [name, value] of Object.entries(place)) this.row.setAttribute(name, value);
  }

  point(at) {
    super.point(at);
    if (at === null) this.chosen = null;
    if (at === null && this.row) this.row.setAttribute('visibility', 'hidden');
  }

  rowName(row) {
    const { bounds } = this.data.heat;
    if (row === bounds.length) return `above ${this.say(bounds.at(-1))}`;
    return row === 0 ? `up to ${this.say(bounds[0])}` : `${this.say(bounds[row - 1])} to ${this.say(bounds[row])}`;
  }

  describe() {
    const { counts } = this.data.heat;
    const sums = counts.reduce((sum, step) => step.map((number, row) => (sum[row] ?? 0) + number).concat(sum.slice(step.length)), []);
    const total = sums.reduce((sum, number) => sum + number, 0);
    const most = total ? `; most in ${this.rowName(sums.indexOf(Math.max(...sums)))}` : '';
    return `${super.describe().replace(/ Arrow keys.*/, '')} ${many(total, 'attempt')}${most}. Arrow keys read single values, up and down choose a range of times.`;
  }
}

/** The shade of a number: equal factors between shades, as times differ by factors too. */
function shadeOf(number, most) {
  return most <= SHADES ? number - 1 : Math.min(SHADES - 1, Math.floor((SHADES * Math.log(number)) / Math.log(most)));
}
