// The list of topics: one request per second for all topics; only visible rows are drawn.

import { Sparkline } from './chart.js';
import { get } from './api.js';
import { count, el, fill, many, rate, setText, short, span } from './dom.js';

/** The job states and their labels. */
export const STATES = [
  ['pending', 'Pending'],
  ['ready', 'Ready'],
  ['blocked', 'Blocked'],
  ['unack', 'Running'],
  ['retry', 'Retry'],
  ['dead', 'Dead'],
];

const COLUMNS = [
  { key: 'topic', title: 'Topic', order: (one, other) => one.name.localeCompare(other.name) },
  { key: 'rate', title: 'Rate', by: (row) => row.series.rateNow() },
  { key: 'depth', title: 'Depth', by: (row) => row.series.points.at(-1)?.jobs ?? 0 },
  { key: 'late', title: 'Lateness', by: (row) => row.state.late_ms ?? 0 },
  ...STATES.filter(([state]) => state !== 'blocked').map(([key, title]) => ({ key, title, by: (row) => row.state[key], isCount: true })),
  { key: 'handler', title: 'Handler', by: (row) => row.state.digests.join() },
];

/** Badges for what holds a topic's jobs back, and for what runs them. */
export function badges(state) {
  const mark = (kind, text, title) => el('span', { class: `badge ${kind}`, title }, text);
  return [
    state.fault && mark('bad', 'keys refused', `${state.fault}; run: duebox doctor ${state.topic}`),
    state.paused && mark('warn', 'paused', 'No daemon starts its jobs'),
    state.breakers_open > 0 && mark('bad', 'breaker open', 'Its jobs are held back after repeated failures'),
    state.pulled && mark('calm', 'pulled', 'It has no handler here: consumers lease its jobs'),
    !state.bound && mark('calm', 'unbound', 'It is not in this daemon’s manifest'),
    state.bound && !state.pulled && state.runners === 0 && mark('bad', 'no runner', 'No daemon serves it: its handler was refused or is still compiling'),
  ].filter(Boolean);
}

export class TopicList {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.sorted = { key: 'topic', down: false };
    this.title = 'Topics';
    this.totals = el('div', { class: 'tiles', id: 'totals' });
    this.filter = el('input', {
      type: 'search', id: 'filter', placeholder: 'Filter topics', 'aria-label': 'Filter topics', autocomplete: 'off', spellcheck: 'false',
      on: { input: () => this.arrange() },
    });
    this.shown = el('span', { class: 'shown', id: 'shown' });
    this.heads = COLUMNS.map((column) => this.head(column));
    this.body = el('tbody');
    this.empty = el('p', { class: 'empty', hidden: true });
    this.node = el('section', { class: 'list', 'aria-label': 'Topics' },
      this.totals,
      el('div', { class: 'bar' }, el('h1', {}, 'Topics'), this.shown, el('span', { class: 'grow' }), this.filter),
      el('table', { id: 'topics' }, el('thead', {}, el('tr', {}, this.heads)), this.body),
      this.empty);
    this.seen = new IntersectionObserver((entries) => this.saw(entries), { rootMargin: '300px' });
  }

  head(column) {
    const sort = el('button', { type: 'button', on: { click: () => this.sort(column.key) } }, column.title);
    return el('th', { scope: 'col', class: `c-${column.key}${column.isCount ? ' number' : ''}`, 'aria-sort': column.key === 'topic' ? 'ascending' : 'none' }, sort);
  }

  async refresh() {
    const list = await get('/v1/topics');
    this.app.saw(list.topics, list.now_ms);
    const names = new Set(list.topics.map((state) => state.topic));
    let isOther = false;
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      this.seen.unobserve(row.node);
      row.node.remove();
      this.rows.delete(name);
      this.app.all.delete(name);
      isOther = true;
    }
    for (const state of list.topics) {
      let row = this.rows.get(state.topic);
      if (!row) {
        row = new Row(state.topic, this.app.series(state.topic));
        this.rows.set(state.topic, row);
        this.seen.observe(row.node);
        isOther = true;
      }
      row.state = state;
      if (row.isSeen) row.show();
    }
    if (isOther) this.arrange();
    this.total();
  }

  /** Notes which rows are visible or nearly visible. */
  saw(entries) {
    for (const entry of entries) {
      const row = entry.target.row;
      row.isSeen = entry.isIntersecting;
      if (row.isSeen) row.show();
    }
  }

  sort(key) {
    const isSame = this.sorted.key === key;
    this.sorted = { key, down: isSame ? !this.sorted.down : key !== 'topic' };
    this.heads.forEach((head, at) => {
      const way = this.sorted.down ? 'descending' : 'ascending';
      head.setAttribute('aria-sort', COLUMNS[at].key === key ? way : 'none');
    });
    this.arrange();
  }

  /** Sorts the rows, and hides those that the filter excludes. */
  arrange() {
    const { order, by } = COLUMNS.find((column) => column.key === this.sorted.key);
    const name = (one, other) => one.name.localeCompare(other.name);
    const value = new Map(by ? [...this.rows.values()].map((row) => [row, by(row)]) : []);
    const compare = order ?? ((one, other) => {
      const [first, second] = [value.get(one), value.get(other)];
      return (first > second) - (first < second) || name(other, one);
    });
    const sorted = [...this.rows.values()].sort(compare);
    if (this.sorted.down) sorted.reverse();
    const wanted = this.filter.value.trim().toLowerCase();
    let shown = 0;
    for (const row of sorted) {
      row.node.hidden = !row.name.toLowerCase().includes(wanted);
      shown += row.node.hidden ? 0 : 1;
    }
    this.body.replaceChildren(...sorted.map((row) => row.node));
    setText(this.shown, wanted ? `${count(shown)} of ${count(this.rows.size)}` : count(this.rows.size));
    this.empty.hidden = shown > 0;
    setText(this.empty, this.rows.size ? 'No topic matches the filter.' : 'There are no topics: add one to the manifest, or push a job.');
  }

  total() {
    const all = [...this.rows.values()];
    const sum = (value) => all.reduce((total, row) => total + value(row), 0);
    const latest = Math.max(0, ...all.map((row) => row.state.late_ms ?? 0));
    const tiles = [
      ['rate', rate(sum((row) => row.series.rateNow())), 'jobs run'],
      ['ready', count(sum((row) => row.state.ready)), 'ready'],
      ['unack', count(sum((row) => row.state.unack)), 'running'],
      ['pending', count(sum((row) => row.state.pending + row.state.retry)), 'waiting'],
      ['dead', count(sum((row) => row.state.dead)), 'dead'],
      ['late', latest ? span(latest) : '–', 'overdue'],
    ];
    fill(this.totals, JSON.stringify(tiles), () => tiles.map(([kind, value, label]) =>
      el('div', { class: `tile ${kind}${['0', '0/s', '–'].includes(value) ? ' none' : ''}` }, el('b', {}, value), el('span', {}, label))));
  }

  /** The links of the visible rows, in order. */
  links() {
    return [...this.body.querySelectorAll('tr:not([hidden]) a')];
  }

  focusFilter() {
    this.filter.focus();
    this.filter.select();
  }

  close() {
    this.seen.disconnect();
  }
}

/** The row of a topic. It has only the name until it becomes visible. */
class Row {
  constructor(name, series) {
    this.name = name;
    this.series = series;
    this.isSeen = false;
    this.marks = el('span', { class: 'badges' });
    this.node = el('tr', {}, el('th', { scope: 'row', class: 'c-topic' },
      el('a', { href: `#/topics/${encodeURIComponent(name)}` }, name), this.marks));
    this.node.row = this;
    this.node.dataset.topic = name;
    this.node.addEventListener('click', (event) => {
      if (!event.target.closest('a') && !getSelection()?.toString()) location.hash = `#/topics/${encodeURIComponent(name)}`;
    });
  }

  draw() {
    this.sparks = ['rate', 'depth', 'late'].map((kind) => new Sparkline(kind));
    const cells = this.sparks.map((spark) => {
      const cell = el('td', { class: 'c-chart', 'data-label': spark.line.title });
      cell.append(spark.node);
      return cell;
    });
    this.counts = STATES.filter(([state]) => state !== 'blocked').map(([state, title]) =>
      el('td', { class: `number s-${state}`, 'data-label': title }));
    this.handler = el('td', { class: 'c-handler', 'data-label': 'Handler' });
    this.node.append(...cells, ...this.counts, this.handler);
  }

  show() {
    if (!this.sparks) this.draw();
    const { state } = this;
    // Daemons do not report what consumers settle, so there is no rate.
    this.sparks.forEach((spark, at) => spark.show(this.series, at > 0 || !state.pulled));
    STATES.filter(([name]) => name !== 'blocked').forEach(([name], at) => {
      const number = name === 'ready' ? state.ready + state.blocked : state[name];
      setText(this.counts[at], count(number));
      this.counts[at].classList.toggle('none', number === 0);
    });
    const marks = badges(state);
    fill(this.marks, marks.map((mark) => mark.textContent).join(), () => marks);
    const handler = state.digests.map(short).join(' · ') || (state.pulled ? 'consumers' : '–');
    setText(this.handler, handler);
    this.handler.title = state.digests.length ? `${many(state.runners, 'daemon')}: ${state.digests.join(', ')}` : '';
  }
}
