// The history of all topics or of one: its time range, its requests, and the charts that show it.

import { get } from './api.js';
import { CLASSES, toneOf } from './classes.js';
import { button, count, el, fill, rate, span } from './dom.js';
import { HeatMap } from './heat.js';
import { Plot } from './plot.js';

/** The ranges to choose from, and how often each is asked for. */
const SPANS = [['10m', '10 min', 600e3], ['1h', '1 hour', 3_600e3], ['6h', '6 hours', 21_600e3], ['48h', '2 days', 172_800e3]];
const STEPS = 120;
const STEPS_ZOOMED = 720;
/** The fewest steps of a chart of a daemon that has just started. */
const STEPS_MIN = 12;
const EVERY_MIN_MS = 2_000;
const EVERY_MAX_MS = 30_000;

const ms = (value) => (value === 0 ? '0' : span(value));
const perStep = (key) => (data, at) => `${key.map((one) => `${count(data.counts[one]?.[at] ?? 0)} ${one}`).join(', ')} in ${span(data.stepMs)}`;

const QUANTILES = [{ key: 'p50', label: 'p50', tone: 't-p50' }, { key: 'p99', label: 'p99', tone: 't-p99' }];

/** The charts, by what they show. */
const KINDS = {
  throughput: {
    title: 'Attempts', unit: 'per second', isStacked: true, say: rate, floor: 0.5, note: perStep(['acked', 'failed']),
    series: [{ key: 'acked', label: 'acked', tone: 't-acked' }, { key: 'snoozed', label: 'snoozed', tone: 't-snoozed' }, { key: 'failed', label: 'failed', tone: 't-failed' }],
    values: (history) => ({ acked: rates(history, history.acked), snoozed: some(rates(history, history.snoozed)), failed: rates(history, history.failed) }),
  },
  failures: {
    title: 'Failures', unit: 'per second, by class', isStacked: true, say: rate, floor: 0.5,
    series: CLASSES.map((name) => ({ key: name, label: name, tone: toneOf(name) })),
    values: (history) => Object.fromEntries(Object.entries(history.classes).map(([name, counts]) => [name, rates(history, counts)])),
  },
  late: {
    title: 'Lateness', unit: 'from due to start', say: ms, floor: 10,
    series: QUANTILES,
    values: (history) => ({ p50: history.late.p50_ms, p99: history.late.p99_ms }),
  },
  lateHeat: {
    title: 'Lateness', unit: 'from due to start', say: ms, series: QUANTILES,
    values: (history) => ({ p50: history.late.p50_ms, p99: history.late.p99_ms }), heat: (history) => history.late,
  },
  ranHeat: {
    title: 'Run time', unit: 'of an attempt', say: ms, series: QUANTILES,
    values: (history) => ({ p50: history.ran.p50_ms, p99: history.ran.p99_ms }), heat: (history) => history.ran,
  },
  waiting: {
    title: 'Waiting', unit: 'jobs: ready, blocked, retry, pending', say: count, floor: 5,
    series: [{ key: 'waiting', label: 'jobs', tone: 't-waiting' }],
    values: (history) => ({ waiting: held(history.waiting) }),
  },
  redis: {
    title: 'Redis', unit: 'longest round trip of this daemon', say: ms, floor: 2,
    series: [{ key: 'redis', label: 'round trip', tone: 't-p50' }],
    values: (history) => ({ redis: history.redis_ms }),
  },
};

/** Counts as attempts per second; the last step is not over. */
function rates(history, counts) {
  return counts.map((number, at) => {
    const start = history.from_ms + at * history.step_ms;
    const took = Math.max(1_000, Math.min(history.step_ms, history.now_ms - start));
    return (number * 1_000) / took;
  });
}

/** A list, if it has a value. */
const some = (values) => (values.some((value) => value > 0) ? values : undefined);

/** Values that are not measured in each step, held until the next one. */
function held(values) {
  let last = null;
  return values.map((value) => (last = value ?? last));
}

/** The part of a response in a range of time. */
function cut(history, { from, until }) {
  const first = Math.max(0, Math.floor((from - history.from_ms) / history.step_ms));
  const last = Math.max(first + 1, Math.ceil((until - history.from_ms) / history.step_ms));
  const part = (value) => (Array.isArray(value) ? value.slice(first, last)
    : typeof value === 'object' && value ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, key === 'bounds_ms' ? one : part(one)])) : value);
  const { failures, topics, ...lists } = history;
  return { ...part(lists), failures, topics, from_ms: history.from_ms + first * history.step_ms };
}

/** The range of a response, without most of the time before the daemon started: as much of it is shown as of the time since. */
function recorded(history) {
  const until = history.from_ms + history.acked.length * history.step_ms;
  const known = Math.max(STEPS_MIN * history.step_ms, 2 * (history.now_ms - history.since_ms));
  return { from: Math.max(history.from_ms, until - known), until };
}

/** The history of a topic, or of all; `kinds` are its charts. */
export class History {
  constructor({ topic, kinds, withTopics = false, onLoad }) {
    Object.assign(this, { topic, withTopics, onLoad });
    this.span = SPANS[0];
    this.zoom = null;
    this.next = 0;
    this.plots = kinds.map((kind) => [KINDS[kind], new (KINDS[kind].heat ? HeatMap : Plot)({
      id: `plot-${kind.replace('Heat', '')}`, ...KINDS[kind], onZoom: (from, until) => this.zoomTo(from, until) })]);
    this.needsBuckets = kinds.some((kind) => KINDS[kind].heat);
    this.reset = button('Reset zoom', () => this.zoomTo(), { class: 'small', id: 'reset-zoom', hidden: true });
    this.choice = el('div', { class: 'spans', role: 'group', 'aria-label': 'Time range' });
    this.showChoice();
    this.bar = el('div', { class: 'bar' }, this.choice, this.reset);
    this.node = el('div', { class: 'plots' }, this.plots.map(([, plot]) => plot.node));
  }

  showChoice() {
    fill(this.choice, this.zoom ? 'zoom' : this.span[0], () => SPANS.map((one) =>
      button(one[1], () => this.choose(one), { class: 'small quiet', 'data-span': one[0], 'aria-pressed': String(!this.zoom && one === this.span) })));
    this.reset.hidden = !this.zoom;
  }

  choose(one) {
    this.span = one;
    this.zoomTo();
  }

  zoomTo(from, until) {
    this.zoom = from === undefined ? null : { from, until };
    this.showChoice();
    this.next = 0;
    this.refresh().catch(() => {});
  }

  /** Asks again if a step has passed since the last time. */
  async refresh() {
    if (performance.now() < this.next) return;
    this.next = performance.now() + EVERY_MIN_MS;
    const now = this.now ? this.now() : Date.now();
    const query = new URLSearchParams(this.zoom
      ? { span: `${Math.max(10, Math.ceil((now - this.zoom.from) / 1_000))}s`, steps: STEPS_ZOOMED } : { span: this.span[0], steps: STEPS });
    if (this.topic) query.set('topic', this.topic);
    if (this.withTopics) query.set('topics', 'true');
    if (this.needsBuckets) query.set('buckets', 'true');
    const history = await get(`/v1/history?${query}`);
    // By the clock of the daemon that answered.
    const ahead = history.now_ms - Date.now();
    this.now = () => Date.now() + ahead;
    this.next = performance.now() + Math.min(EVERY_MAX_MS, Math.max(EVERY_MIN_MS, history.step_ms));
    this.show(cut(history, this.zoom ?? recorded(history)));
    this.onLoad?.(history);
  }

  show(history) {
    for (const [kind, plot] of this.plots) {
      const values = kind.values(history);
      plot.show({
        fromMs: history.from_ms, stepMs: history.step_ms, sinceMs: history.since_ms, values, away: history.redis_away,
        counts: { acked: history.acked, failed: history.failed },
        heat: kind.heat && { bounds: kind.heat(history).bounds_ms, counts: kind.heat(history).counts },
      });
    }
  }

  close() {
    for (const [, plot] of this.plots) plot.close();
  }
}
