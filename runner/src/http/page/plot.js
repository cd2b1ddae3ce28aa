// A chart over time: stacked bars or lines, with axes, a legend, a tooltip for pointer and keys, and a brush that
// zooms. Its colours come from the style, by the class of each series.

import { TEXTURES } from './classes.js';
import { draw, el } from './dom.js';

export const HEIGHT = 168;
export const EDGE = { left: 52, right: 10, top: 10, bottom: 22 };
/** A drag of fewer pixels is a click. */
const DRAG_MIN = 6;
/** Distances of the labels of the time axis, in ms. */
const TIMES = [10e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1_800e3, 3_600e3, 7_200e3, 21_600e3, 43_200e3, 86_400e3];

const seconds = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const minutes = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const days = new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

/** A chart. `series` are `{ key, label, tone }`; `say` formats a value. */
export class Plot {
  constructor({ id, title, unit, series, say, isStacked = false, floor = 1, note = null, onZoom }) {
    Object.assign(this, { id, title, series, say, isStacked, floor, note, onZoom });
    this.at = null;
    this.unit = el('small', {}, unit);
    this.legend = el('span', { class: 'legend' });
    this.svg = draw('svg', { class: 'axes', role: 'img', tabindex: '0', height: HEIGHT });
    this.tip = el('div', { class: 'tip', hidden: true, role: 'status' });
    this.area = el('div', { class: 'plot-area' }, this.svg, this.tip);
    this.node = el('figure', { class: 'panel plot', id }, el('figcaption', {}, el('span', {}, title, this.unit), this.legend), this.area);
    this.listen();
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(this.area);
  }

  /** Shows `{ fromMs, stepMs, sinceMs, values, away }`: a list of values for each series. */
  show(data, series = this.series) {
    this.data = data;
    this.series = series;
    const shown = series.filter(({ key }) => data.values[key]);
    const key = shown.map(({ label }) => label).join();
    if (this.legend.filledWith !== key) {
      this.legend.filledWith = key;
      this.legend.replaceChildren(...shown.map(({ label, tone }) => el('span', { class: `key ${tone}` }, label)));
    }
    this.draw();
  }

  listen() {
    const at = (event) => {
      const box = this.svg.getBoundingClientRect();
      return event.clientX - box.left;
    };
    this.svg.addEventListener('pointermove', (event) => {
      if (this.drag !== undefined) this.stretch(at(event));
      this.point(this.stepAt(at(event)));
    });
    this.svg.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.data || event.pointerType === 'touch') return;
      this.drag = at(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener('pointerup', (event) => this.drop(at(event)));
    this.svg.addEventListener('pointercancel', () => this.drop(this.drag));
    this.svg.addEventListener('pointerleave', () => this.point(null));
    this.svg.addEventListener('blur', () => this.point(null));
    this.svg.addEventListener('keydown', (event) => this.key(event));
  }

  key(event) {
    const steps = this.steps();
    const last = steps - 1;
    const moves = { ArrowLeft: (this.at ?? steps) - 1, ArrowRight: (this.at ?? -1) + 1, Home: 0, End: last };
    if (event.key === 'Escape' && this.at !== null) this.point(null);
    else if (event.key in moves) this.point(Math.max(0, Math.min(last, moves[event.key])));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  steps() {
    return Math.max(0, ...Object.values(this.data?.values ?? {}).map((values) => values?.length ?? 0));
  }

  stepAt(x) {
    const step = Math.floor((x - EDGE.left) / this.stepWidth);
    return step >= 0 && step < this.steps() ? step : null;
  }

  stretch(x) {
    const [from, to] = [Math.min(this.drag, x), Math.max(this.drag, x)];
    this.brush?.setAttribute('x', from);
    this.brush?.setAttribute('width', to - from);
  }

  drop(x) {
    if (this.drag === undefined) return;
    const [from, to] = [Math.min(this.drag, x), Math.max(this.drag, x)];
    this.drag = undefined;
    this.brush?.setAttribute('width', 0);
    if (to - from < DRAG_MIN || !this.onZoom) return;
    const time = (place) => this.data.fromMs + ((place - EDGE.left) / this.stepWidth) * this.data.stepMs;
    this.onZoom(time(from), time(to));
  }

  /** Shows the values of a step, or none. */
  point(at) {
    this.at = at;
    this.tip.hidden = at === null;
    this.cursor?.setAttribute('visibility', at === null ? 'hidden' : 'visible');
    if (at === null) return;
    const { fromMs, stepMs } = this.data;
    const x = EDGE.left + (at + 0.5) * this.stepWidth;
    this.cursor?.setAttribute('x1', x);
    this.cursor?.setAttribute('x2', x);
    const start = fromMs + at * stepMs;
    const format = stepMs < 60_000 ? seconds : days;
    this.tip.replaceChildren(el('span', { class: 'faint' }, format.format(start)), ...this.valuesAt(at));
    const isLeft = x > this.width / 2;
    this.tip.style.left = isLeft ? '' : `${x + 10}px`;
    this.tip.style.right = isLeft ? `${this.width - x + 10}px` : '';
  }

  /** The values of a step, for the tooltip. */
  valuesAt(at) {
    const { values } = this.data;
    const lines = this.series.filter(({ key }) => values[key]).map(({ key, label, tone }) =>
      el('span', { class: `key ${tone}` }, `${label} `, el('b', {}, isKnown(values[key][at]) ? this.say(values[key][at]) : '–')));
    const note = this.note?.(this.data, at);
    return note ? [...lines, el('span', { class: 'faint' }, note)] : lines;
  }

  draw() {
    const width = this.area.clientWidth;
    if (!this.data || width < 80) return;
    this.width = width;
    const { fromMs, stepMs, sinceMs, away } = this.data;
    const steps = this.steps();
    this.stepWidth = (width - EDGE.left - EDGE.right) / Math.max(1, steps);
    const bottom = HEIGHT - EDGE.bottom;
    const x = (step) => EDGE.left + step * this.stepWidth;
    const { ticks, y } = this.scale(steps, bottom);
    const parts = [];
    const unknown = Math.min(steps, Math.max(0, (sinceMs - fromMs) / stepMs));
    if (unknown > 0) parts.push(draw('rect', { class: 'unknown', x: x(0), y: EDGE.top, width: unknown * this.stepWidth, height: bottom - EDGE.top }));
    away?.forEach((isAway, step) => {
      if (isAway) parts.push(draw('rect', { class: 'away', x: x(step), y: EDGE.top, width: this.stepWidth + 0.5, height: bottom - EDGE.top }));
    });
    for (const [place, text] of ticks) {
      parts.push(draw('line', { class: 'grid', x1: EDGE.left, x2: width - EDGE.right, y1: place, y2: place }), label(EDGE.left - 6, place + 4, text, 'end'));
    }
    for (const [time, text] of timeLabels(fromMs, fromMs + steps * stepMs, width)) {
      const place = EDGE.left + ((time - fromMs) / stepMs) * this.stepWidth;
      const anchor = place > width - 30 ? 'end' : 'middle';
      parts.push(draw('line', { class: 'grid', x1: place, x2: place, y1: bottom, y2: bottom + 4 }),
        label(Math.min(place, width - (anchor === 'end' ? 2 : 0)), HEIGHT - 5, text, anchor));
    }
    parts.push(...this.marks(x, y, steps));
    if (unknown * this.stepWidth > 150) parts.push(label(x(0) + (unknown * this.stepWidth) / 2, EDGE.top + 16, 'not recorded yet', 'middle'));
    this.cursor = draw('line', { class: 'cursor', y1: EDGE.top, y2: bottom, x1: 0, x2: 0, visibility: 'hidden' });
    this.brush = draw('rect', { class: 'brush', y: EDGE.top, height: bottom - EDGE.top, x: 0, width: 0 });
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts, this.cursor, this.brush);
    this.svg.setAttribute('aria-label', this.describe());
    if (this.at !== null) this.point(Math.min(this.at, steps - 1));
  }

  /** The labels of the value axis with their places, and the place of a value. */
  scale(steps, bottom) {
    const ticks = niceTicks(Math.max(this.floor, this.most(steps)));
    const y = (value) => bottom - (value / ticks.at(-1)) * (bottom - EDGE.top);
    return { ticks: ticks.map((tick) => [y(tick), this.say(tick)]), y };
  }

  /** What is drawn for the values. */
  marks(x, y, steps) {
    return this.isStacked ? this.bars(x, y, steps) : this.lines(x, y);
  }

  /** The largest value, or sum of stacked values. */
  most(steps) {
    const all = this.series.map(({ key }) => this.data.values[key] ?? []);
    let most = 0;
    for (let step = 0; step < steps; step += 1) {
      const values = all.map((list) => list[step] ?? 0);
      most = Math.max(most, this.isStacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values));
    }
    return most;
  }

  bars(x, y, steps) {
    const base = new Array(steps).fill(0);
    const gap = this.stepWidth > 4 ? 1 : 0;
    const shown = this.series.filter(({ key }) => this.data.values[key]);
    const parts = shown.some(({ tone }) => textureOf(tone)) ? [this.textures()] : [];
    return parts.concat(shown.flatMap(({ key, tone }) => {
      let path = '';
      this.data.values[key].forEach((value, step) => {
        if (!value) return;
        // A bar of any value is visible.
        const low = y(base[step]);
        const high = Math.min(y(base[step] + value), low - 1.5);
        base[step] += value;
        path += `M${x(step).toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}h${(this.stepWidth - gap).toFixed(1)}V${low.toFixed(1)}Z`;
      });
      const texture = textureOf(tone);
      const bars = draw('path', { class: `bar-fill ${tone}`, d: path });
      return texture ? [bars, draw('path', { d: path, fill: `url(#${this.id}-${texture})` })] : [bars];
    }));
  }

  /** The textures, lines in the colour of the ground over the tone of the bars. */
  textures() {
    return draw('defs', {}, ...TEXTURES.map((texture) => draw('pattern', {
      id: `${this.id}-${texture}`, width: 4, height: 4, patternUnits: 'userSpaceOnUse', patternTransform: texture === 'x-striped' ? 'rotate(45)' : 'rotate(90)',
    }, draw('line', { class: 'texture', x1: 2, x2: 2, y1: 0, y2: 4 }))));
  }

  lines(x, y) {
    return this.series.filter(({ key }) => this.data.values[key]).map(({ key, tone }) => {
      const values = this.data.values[key];
      let path = '';
      values.forEach((value, step) => {
        if (!isKnown(value)) return;
        const [right, down] = [x(step + 0.5), y(value).toFixed(1)];
        // A value between unknown ones is a dash.
        if (step > 0 && isKnown(values[step - 1])) path += `L${right.toFixed(1)} ${down}`;
        else path += `M${(right - 2).toFixed(1)} ${down}h4M${right.toFixed(1)} ${down}`;
      });
      return draw('path', { class: `line ${tone}`, d: path });
    });
  }

  /** The chart in words, for screen readers. */
  describe() {
    const said = this.series.filter(({ key }) => this.data.values[key]).map(({ key, label: name }) => {
      const known = this.data.values[key].filter(isKnown);
      if (!known.length) return `${name}: none`;
      return `${name}: now ${this.say(known.at(-1))}, at most ${this.say(Math.max(...known))}`;
    });
    return `${this.title}, ${this.unit.textContent}. ${said.join('; ')}. Arrow keys read single values.`;
  }

  close() {
    this.size.disconnect();
  }
}

const isKnown = (value) => value !== null && value !== undefined;

const textureOf = (tone) => TEXTURES.find((texture) => tone.includes(texture));

function label(x, y, text, anchor) {
  const node = draw('text', { x, y, 'text-anchor': anchor });
  node.textContent = text;
  return node;
}

/** Round values from 0 to at least `most`. */
export function niceTicks(most, about = 3) {
  const raw = most / about;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((one) => one >= raw * 0.999);
  const ticks = [];
  for (let tick = 0; tick < most + step * 0.999; tick += step) ticks.push(Number(tick.toPrecision(6)));
  return ticks;
}

/** Times in a range at round distances, with their labels. */
function timeLabels(from, until, width) {
  const room = Math.max(2, Math.floor(width / 90));
  const step = TIMES.find((one) => (until - from) / one <= room) ?? TIMES.at(-1);
  const format = step < 60_000 ? seconds : until - from > 86_400_000 ? days : minutes;
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const labels = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= until; time += step) labels.push([time, format.format(time)]);
  return labels;
}
