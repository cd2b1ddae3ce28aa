// The list of topics with the charts of all of them. Idle topics are folded; only visible rows are drawn.

import { get } from './api.js';
import { button, clock, count, el, fill, many, rate, setText, short, span } from './dom.js';
import { Causes } from './failures.js';
import { History } from './history.js';
import { Spark } from './spark.js';
import { STATES, badges, hasTrouble, isIdle } from './states.js';

/** With more topics than this the list is asked for less than once a second. */
const TOPICS_PER_SECOND = 200;

/** The states that have a column; ready jobs include blocked ones. */
const COUNTED = STATES.filter(([state]) => !['blocked', 'done'].includes(state));

const percent = (part, all) => (part ? `${(100 * part) / all < 1 ? '<1' : Math.round((100 * part) / all)} %` : '');
const time = (ms) => (ms === null || ms === undefined ? '–' : span(ms));

const COLUMNS = [
  { key: 'topic', title: 'Topic', order: (one, other) => one.name.localeCompare(other.name) },
  { key: 'rate', title: 'Attempts', by: (row) => row.state.recent.attempts },
  { key: 'failed', title: 'Failed', by: (row) => row.state.recent.failed, isCount: true },
  { key: 'late', title: 'Late p99', by: (row) => row.state.recent.late_p99_ms ?? -1, isCount: true },
  { key: 'ran', title: 'Run p99', by: (row) => row.state.recent.ran_p99_ms ?? -1, isCount: true },
  ...COUNTED.map(([key, title]) => ({ key, title, by: (row) => row.state[key], isCount: true })),
  { key: 'handler', title: 'Handler', by: (row) => row.state.digests.join() },
];

export class TopicList {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.sorted = { key: 'topic', down: false };
    this.title = 'Topics';
    this.follows = '*';
    this.steps = {};
    this.next = 0;
    this.totals = el('div', { class: 'tiles', id: 'totals' });
    this.causes = new Causes(app, 4);
    this.history = new History({ kinds: ['throughput', 'failures', 'late', 'waiting'], withTopics: true, onLoad: (history) => this.loaded(history) });
    this.filter = el('input', {
      type: 'search', id: 'filter', placeholder: 'Filter topics', 'aria-label': 'Filter topics', autocomplete: 'off', spellcheck: 'false',
      on: { input: () => this.arrange() },
    });
    this.trouble = el('input', { type: 'checkbox', id: 'trouble', on: { change: () => this.arrange() } });
    this.shown = el('span', { class: 'shown', id: 'shown' });
    this.heads = COLUMNS.map((column) => this.head(column));
    this.body = el('tbody');
    this.empty = el('p', { class: 'empty', hidden: true });
    this.fold = button('', () => this.unfold(), { class: 'quiet', id: 'fold', 'aria-expanded': 'false', hidden: true });
    this.isFolded = true;
    this.node = el('section', { class: 'list', 'aria-label': 'Topics' }, this.totals, this.history.bar, this.history.node, this.causes.node,
      el('div', { class: 'bar' }, el('h1', {}, 'Topics'), this.shown, el('span', { class: 'grow' }),
        el('label', { class: 'check', for: 'trouble' }, this.trouble, 'Only with trouble'), this.filter),
      el('table', { id: 'topics' }, el('caption', { class: 'hidden' }, 'Topics; attempts, failures and times are of the last ten minutes'),
        el('thead', {}, el('tr', {}, this.heads)), this.body),
      this.empty, this.fold);
    this.seen = new IntersectionObserver((entries) => this.saw(entries), { rootMargin: '300px' });
  }

  head(column) {
    const sort = el('button', { type: 'button', on: { click: () => this.sort(column.key) } }, column.title);
    return el('th', { scope: 'col', class: `c-${column.key}${column.isCount ? ' number' : ''}`, 'aria-sort': column.key === 'topic' ? 'ascending' : 'none' }, sort);
  }

  async refresh() {
    // The history is asked first: it needs no Redis.
    await this.history.refresh();
    if (performance.now() < this.next) return;
    const list = await get('/v1/topics');
    this.next = performance.now() + Math.floor(list.topics.length / TOPICS_PER_SECOND) * 1_000;
    if (list.now_ms) clock.ahead = list.now_ms - Date.now();
    this.update(list.topics);
    this.total();
  }

  loaded(history) {
    this.steps = history.topics.topics;
    this.causes.show(history.failures);
    for (const row of this.rows.values()) this.draw(row);
  }

  update(states) {
    const names = new Set(states.map((state) => state.topic));
    let isOther = false;
    for (const [name, row] of this.rows) {
      if (names.has(name)) continue;
      this.seen.unobserve(row.node);
      row.node.remove();
      this.rows.delete(name);
      isOther = true;
    }
    for (const state of states) {
      let row = this.rows.get(state.topic);
      if (!row) {
        row = new Row(state.topic);
        this.rows.set(state.topic, row);
        this.seen.observe(row.node);
        isOther = true;
      }
      isOther ||= row.isIdle !== isIdle(state) || row.hasTrouble !== hasTrouble(state);
      row.take(state);
      this.draw(row);
    }
    if (isOther) this.arrange();
  }

  draw(row) {
    if (row.isSeen && row.state) row.show(this.steps[row.name]);
  }

  /** Notes which rows are visible or nearly visible. */
  saw(entries) {
    for (const entry of entries) {
      const row = entry.target.row;
      row.isSeen = entry.isIntersecting;
      this.draw(row);
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

  unfold() {
    this.isFolded = !this.isFolded;
    this.arrange();
  }

  /** Sorts the rows, and hides those that the filters exclude and idle ones. */
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
    const idle = sorted.filter((row) => row.isIdle).length;
    // Fold idle topics only if there are more than eight of them and no filter is set.
    const folds = this.isFolded && !wanted && idle > 8;
    let shown = 0;
    for (const row of sorted) {
      const isOut = !row.name.toLowerCase().includes(wanted) || (this.trouble.checked && !row.hasTrouble) || (folds && row.isIdle);
      row.node.hidden = isOut;
      shown += isOut ? 0 : 1;
    }
    this.body.replaceChildren(...sorted.map((row) => row.node));
    this.fold.hidden = Boolean(wanted) || this.trouble.checked || idle <= 8;
    setText(this.fold, folds ? `Show ${many(idle, 'idle topic')}` : `Hide ${many(idle, 'idle topic')}`);
    this.fold.setAttribute('aria-expanded', String(!folds));
    const isFiltered = wanted || this.trouble.checked;
    setText(this.shown, isFiltered ? `${count(shown)} of ${count(this.rows.size)}` : count(this.rows.size));
    this.empty.hidden = shown > 0 || folds;
    setText(this.empty, this.trouble.checked && !wanted ? 'No topic has trouble.'
      : this.rows.size ? 'No topic matches the filter.' : 'There are no topics: add one to the manifest, or push a job.');
  }

  total() {
    const all = [...this.rows.values()].map((row) => row.state);
    const sum = (value) => all.reduce((total, state) => total + value(state), 0);
    const latest = Math.max(0, ...all.map((state) => state.late_ms ?? 0));
    const [attempts, failed] = [sum((state) => state.recent.attempts), sum((state) => state.recent.failed)];
    const tiles = [
      ['rate', rate(sum((state) => state.attempts_per_s ?? 0)), 'attempts', ''],
      ['failed', count(failed), 'failed in 10 min', percent(failed, attempts)],
      ['ready', count(sum((state) => state.ready)), 'ready', ''],
      ['unack', count(sum((state) => state.unack)), 'running', ''],
      ['pending', count(sum((state) => state.pending)), 'pending', ''],
      ['retry', count(sum((state) => state.retry)), 'retry', ''],
      ['dead', count(sum((state) => state.dead)), 'dead', ''],
      ['late', latest ? span(latest) : '–', 'overdue', ''],
    ];
    fill(this.totals, JSON.stringify(tiles), () => tiles.map(([kind, value, label, more]) =>
      el('div', { class: `tile ${kind}${['0', '0/s', '–'].includes(value) ? ' none' : ''}` }, el('b', {}, value, more && el('small', {}, more)), el('span', {}, label))));
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
    this.history.close();
  }
}

/** The row of a topic. It has only the name until it becomes visible. */
class Row {
  constructor(name) {
    this.name = name;
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

  take(state) {
    this.state = state;
    this.isIdle = isIdle(state);
    this.hasTrouble = hasTrouble(state);
  }

  build() {
    this.spark = new Spark();
    const number = (kind, label) => el('td', { class: `number ${kind}`, 'data-label': label });
    this.failed = number('failed', 'Failed');
    this.late = number('late', 'Late p99');
    this.ran = number('ran', 'Run p99');
    this.counts = COUNTED.map(([state, title]) => number(`s-${state}`, title));
    this.handler = el('td', { class: 'c-handler', 'data-label': 'Handler' });
    this.node.append(el('td', { class: 'c-chart', 'data-label': 'Attempts' }, this.spark.node), this.failed, this.late, this.ran, ...this.counts, this.handler);
  }

  show(steps) {
    if (!this.spark) this.build();
    const { state } = this;
    const { recent } = state;
    this.spark.show(steps, state.attempts_per_s, recent);
    const put = (cell, text, isNone) => {
      setText(cell, text);
      cell.classList.toggle('none', isNone);
    };
    put(this.failed, recent.failed ? `${count(recent.failed)} · ${percent(recent.failed, recent.attempts)}` : '0', !recent.failed);
    put(this.late, time(recent.late_p99_ms), recent.late_p99_ms === null);
    put(this.ran, time(recent.ran_p99_ms), recent.ran_p99_ms === null);
    COUNTED.forEach(([name], at) => {
      const number = name === 'ready' ? state.ready + state.blocked : state[name];
      put(this.counts[at], count(number), number === 0);
    });
    const marks = badges(state);
    fill(this.marks, marks.map((mark) => mark.textContent).join(), () => marks);
    setText(this.handler, state.digests.map(short).join(' · ') || (state.pulled ? 'consumers' : '–'));
    this.handler.title = state.digests.length ? `${many(state.runners, 'daemon')}: ${state.digests.join(', ')}` : '';
  }
}
