// The jobs of one state of a topic, in pages, with search by id and by header; one or many can be acted on. The state,
// the search and the page are in the link.

import { Refused, get, topicPath } from './api.js';
import * as actions from './actions.js';
import { Rows, button, count, el, fill, many, setText, when } from './dom.js';
import { jobLink } from './job.js';
import { ACTIONS, actionsOf, chosen, confirmMany, matching } from './selection.js';
import { STATES, wordOf } from './states.js';

const PAGE = 50;
/** The page is listed again at every so many refreshes. */
const LIST_EVERY = 2;

const TIMES = { pending: 'Due', ready: 'Due since', blocked: 'Due since', unack: 'Lease ends', retry: 'Next attempt', dead: 'Died', done: 'Done' };

/** The link to the jobs of a state; `query` may have `id`, `header` and `after`. */
export function browseLink(topic, state, query = {}) {
  const wanted = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  return `#/topics/${encodeURIComponent(topic)}/browse/${state}${wanted.size ? `?${wanted}` : ''}`;
}

/** The view of the jobs of a state. */
export class BrowsePage {
  constructor(app, topic, state, query) {
    Object.assign(this, { app, topic, follows: topic, turn: 0, number: 0 });
    this.state = STATES.some(([name]) => name === state) ? state : 'dead';
    this.query = { id: query.get('id') ?? '', header: query.get('header') ?? '' };
    this.after = query.get('after');
    this.title = `${wordOf(this.state)} jobs · ${topic}`;
    this.selected = new Set();
    this.allMatch = false;
    this.jobs = [];
    this.actions = actionsOf(app, this.state);
    this.tabs = el('nav', { class: 'tabs', id: 'states', 'aria-label': 'States' });
    this.note = el('p', { class: 'faint', role: 'status', id: 'browse-note' });
    this.list = new Rows(this.heads(), (job) => this.row(job), 'plain cards browse');
    this.pages = el('nav', { class: 'bar pages', 'aria-label': 'Pages' });
    this.node = el('article', { class: 'topic', 'aria-label': this.title }, this.head(), this.tabs, this.search(),
      el('section', { class: 'panel jobs', id: 'browse', 'aria-label': 'Jobs' }, this.actions.length > 0 && this.selection(), this.note, this.list.node, this.pages));
  }

  head() {
    return el('div', { class: 'head' }, el('a', { class: 'back', href: `#/topics/${encodeURIComponent(this.topic)}` }, `← ${this.topic}`),
      el('div', { class: 'bar' }, el('h1', { id: 'name' }, `Jobs of ${this.topic}`)));
  }

  heads() {
    const more = this.state === 'done' ? ['Attempt'] : [this.state === 'dead' ? 'Attempt' : 'Failed', 'Class', 'Reason'];
    const select = el('span', { class: 'hidden' }, 'Selected');
    return [...(this.actions.length ? [select] : []), 'Job', TIMES[this.state], ...more];
  }

  search() {
    const text = (id, placeholder, value) => el('input', { id, type: 'search', placeholder, value, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' });
    this.id = text('search-id', 'id, or its start', this.query.id);
    // Done jobs keep no headers.
    this.header = this.state !== 'done' && text('search-header', 'customer=42', this.query.header);
    const form = el('form', { class: 'bar search', role: 'search' }, el('label', {}, 'Id', this.id), this.header && el('label', {}, 'Header', this.header),
      el('button', { type: 'submit', class: 'main', id: 'search' }, 'Search'),
      button('Open this id', () => this.openId(), { id: 'open-id', title: 'The job with exactly this id, in whatever state it is' }),
      (this.query.id || this.query.header) && el('a', { id: 'clear-search', href: browseLink(this.topic, this.state) }, 'Clear'));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const header = this.header ? this.header.value.trim() : '';
      if (header && !header.includes('=')) {
        setText(this.note, 'Write a header as name=value, such as customer=42.');
        this.header.focus();
        return;
      }
      location.hash = browseLink(this.topic, this.state, { id: this.id.value.trim(), header });
    });
    return form;
  }

  openId() {
    const id = this.id.value.trim();
    if (id) location.hash = jobLink(this.topic, id);
    else this.id.focus();
  }

  selection() {
    this.all = el('input', { type: 'checkbox', id: 'select-page', on: { change: () => this.selectPage(this.all.checked) } });
    this.chosenText = el('span', { id: 'selected', role: 'status' });
    this.matchAll = button('Select all that match', () => this.selectAll(), { class: 'small quiet', id: 'select-match', hidden: true });
    this.buttons = this.actions.map((name) => button(ACTIONS[name].word, () => this.act(name),
      { id: `do-${name}`, class: ACTIONS[name].isCalm ? 'small main' : 'small danger quiet', disabled: true }));
    return el('div', { class: 'bar selection', role: 'group', 'aria-label': 'Selected jobs' }, el('label', { class: 'check', for: 'select-page' }, this.all, 'All on this page'), this.chosenText, this.matchAll, el('span', { class: 'grow' }), this.buttons);
  }

  async refresh() {
    if (this.isUnknown) return;
    try {
      await this.look();
    } catch (error) {
      if (!(error instanceof Refused) || error.kind !== 'unknown-topic') throw error;
      this.isUnknown = true;
      this.node.replaceChildren(el('section', { class: 'panel unknown', id: 'unknown' }, el('h1', {}, '404: no such topic'), el('p', { class: 'faint' }, error.remedy), el('a', { href: '#/' }, 'All topics')));
    }
  }

  async look() {
    const state = await get(topicPath(this.topic));
    this.number = state[this.state];
    fill(this.tabs, JSON.stringify(STATES.map(([name]) => state[name])), () => STATES.map(([name, title]) => el('a', {
      href: browseLink(this.topic, name), 'data-state': name, class: `s-${name}`, 'aria-current': name === this.state ? 'page' : null,
    }, title, ' ', el('b', {}, count(state[name])))));
    // A search looks at up to 10,000 jobs: it is repeated on demand only.
    const isDue = this.isSearch ? this.turn === 0 : this.turn % LIST_EVERY === 0;
    // What is selected stays where it is.
    if (isDue && (this.turn === 0 || this.selected.size === 0)) await this.listPage();
    this.turn += 1;
  }

  get isSearch() {
    return Boolean(this.query.id || this.query.header);
  }

  async listPage() {
    const query = new URLSearchParams({ ...this.wanted, limit: PAGE, ...(this.after && { after: this.after }) });
    const page = await get(`${topicPath(this.topic, 'jobs')}?${query}`);
    this.jobs = page.jobs;
    this.selected.clear();
    this.allMatch = false;
    this.list.show(page.jobs, this.emptyText(page));
    const sofar = page.stopped ? `Looked at ${many(page.looked_at, 'job')} so far; “Next page” looks further.` : '';
    setText(this.note, this.isSearch ? `${many(page.jobs.length, 'job')} found on this page. ${sofar}`.trim() : '');
    fill(this.pages, JSON.stringify([page.next ?? '', this.after]), () => [
      this.after && el('a', { id: 'first-page', href: this.link() }, 'First page'),
      page.next && el('a', { id: 'next-page', href: this.link(page.next) }, 'Next page')]);
    this.hasMore = Boolean(page.next || this.after);
    this.showSelection();
  }

  emptyText(page) {
    if (page.next) return 'No job on this page; the next page continues.';
    if (this.after) return 'No further jobs.';
    return this.isSearch ? `No ${wordOf(this.state)} job matches.` : `No ${wordOf(this.state)} jobs.`;
  }

  /** The query for the API. */
  get wanted() {
    return Object.fromEntries(Object.entries({ state: this.state, ...this.query }).filter(([, value]) => value));
  }

  link(after) {
    return browseLink(this.topic, this.state, { ...this.query, after });
  }

  row(job) {
    const cell = (label, ...children) => el('td', { 'data-label': label }, ...children);
    const isDone = this.state === 'done';
    const box = this.actions.length > 0 && el('input', { type: 'checkbox', 'aria-label': `Select ${job.id}`, 'data-job': job.id, on: { change: () => this.toggle(job.id, box.checked) } });
    if (box) box.checked = this.selected.has(job.id);
    const number = this.state === 'dead' || isDone ? cell('Attempt', job.attempt ?? '–') : cell('Failed', String(job.failures ?? 0));
    return el('tr', {}, box && el('td', { class: 'box' }, el('label', { class: 'check' }, box)),
      el('th', { scope: 'row' }, el('a', { class: 'id', href: jobLink(this.topic, job.id) }, job.id)), cell(TIMES[this.state], when(job.at_ms)), number,
      !isDone && cell('Class', job.class ? el('span', { class: 'chip s-dead' }, job.class) : '–'),
      !isDone && el('td', { class: 'reason', 'data-label': 'Reason' }, el('span', {}, job.reason ?? '')));
  }

  toggle(id, isOn) {
    this.allMatch = false;
    if (isOn) this.selected.add(id);
    else this.selected.delete(id);
    this.showSelection();
  }

  selectPage(isOn) {
    this.allMatch = false;
    this.selected = new Set(isOn ? this.jobs.map((job) => job.id) : []);
    this.showSelection();
  }

  selectAll() {
    this.allMatch = true;
    this.showSelection();
    this.buttons[0].focus();
  }

  showSelection() {
    if (!this.actions.length) return;
    const [chosenNow, shown] = [this.selected.size, this.jobs.length];
    if (chosenNow < shown || shown === 0) this.allMatch = false;
    this.all.checked = shown > 0 && chosenNow === shown;
    this.all.indeterminate = chosenNow > 0 && chosenNow < shown;
    this.all.disabled = shown === 0;
    for (const box of this.list.body.querySelectorAll('input')) box.checked = this.selected.has(box.dataset.job);
    this.matchAll.hidden = !(this.hasMore && shown > 0 && chosenNow === shown) || this.allMatch;
    setText(this.matchAll, this.isSearch ? 'Select all that match' : `Select all ${many(this.number, `${wordOf(this.state)} job`)}`);
    const all = this.isSearch ? 'All that match' : `All ${many(this.number, `${wordOf(this.state)} job`)}`;
    setText(this.chosenText, this.allMatch ? `${all} are selected` : chosenNow ? `${count(chosenNow)} selected; the list is not updated meanwhile` : 'Select jobs to act on them');
    for (const node of this.buttons) node.disabled = chosenNow === 0;
  }

  act(action) {
    const { topic, state, allMatch: isAll } = this;
    const ids = [...this.selected];
    const number = isAll ? this.number : ids.length;
    const word = wordOf(state);
    const what = isAll ? `all ${this.isSearch ? `${word} jobs that match` : many(number, `${word} job`)} of ${topic}` : `${many(ids.length, `${word} job`)} of ${topic}`;
    // The first page again: the place in the list may be gone.
    const batches = () => (isAll ? matching(topic, this.wanted, number) : chosen(ids));
    confirmMany({ topic, action, what, number, isAll, batches, done: () => this.acted() });
  }

  async acted() {
    this.turn = 0;
    await this.refresh().catch(actions.sayRefused);
  }

  /** Lists again at the next refresh, unless that would undo a selection or repeat a search. */
  refreshLists() {
    if (this.selected.size === 0 && !this.isSearch) this.turn = 0;
  }

  links() {
    return [...this.list.body.querySelectorAll('a.id')];
  }

  /** Selects the job whose link has the focus, or no longer. */
  mark() {
    const box = document.activeElement?.closest('tr')?.querySelector('input');
    box?.click();
  }

  focusFilter() {
    this.id.focus();
    this.id.select();
  }

  /** Another page is a new view: a reader of the screen continues at the list. */
  focus() {
    if (this.after) document.getElementById('main').focus();
  }

  close() {}
}
