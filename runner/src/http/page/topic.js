// The page of one topic: job counts, charts, causes of failures, modules and their history, live jobs and dead jobs.

import { Refused, get, topicPath } from './api.js';
import * as actions from './actions.js';
import { button, bytes, count, el, fill, many, short, span, updateTimes, when } from './dom.js';
import { browseLink } from './browse.js';
import { Causes } from './failures.js';
import { History } from './history.js';
import { DeadJobs, LiveJobs } from './jobs.js';
import { STATES, badges } from './states.js';

/** The job lists are refreshed at every second refresh of the topic. */
const LISTS_EVERY = 2;

const FATES = {
  served: ['good', 'serves'],
  refused: ['bad', 'refused'],
  rolled_back: ['bad', 'rolled back'],
  rolled_back_by_hand: ['warn', 'rolled back by hand'],
  left: ['calm', 'left'],
};

export class TopicPage {
  constructor(app, name) {
    this.app = app;
    this.name = name;
    this.title = name;
    this.follows = name;
    this.turn = 0;
    this.marks = el('span', { class: 'badges' });
    this.buttons = el('div', { class: 'actions' });
    this.states = el('div', { class: 'tiles', id: 'states' });
    this.mix = el('div', { class: 'mix', 'aria-hidden': 'true' });
    this.causes = new Causes(app, 8, name);
    this.charts = new History({ topic: name, kinds: ['throughput', 'failures', 'lateHeat', 'ranHeat', 'waiting'], onLoad: (history) => this.causes.show(history.failures) });
    this.handler = el('div', { class: 'panel-body', id: 'handler' });
    this.history = el('div', { class: 'panel-body', id: 'history' });
    const later = () => app.refresh();
    this.latest = app.may('read') && new LiveJobs(name, later);
    this.dead = app.may('read') && new DeadJobs(app, name, later);
    this.node = el('article', { class: 'topic' }, this.head(), this.states, this.mix, this.charts.bar, this.charts.node, this.causes.node,
      el('div', { class: 'two' }, panel('Handler', this.handler), panel('Module history', this.history)),
      this.dead && this.dead.node, this.latest && this.latest.node,
      !this.dead && el('p', { class: 'empty' }, 'Jobs are visible with the scope read.'));
  }

  head() {
    return el('div', { class: 'head' },
      el('a', { class: 'back', href: '#/' }, '← Topics'),
      el('div', { class: 'bar' }, el('h1', { id: 'name' }, this.name), this.marks, el('span', { class: 'grow' }), this.buttons));
  }

  async refresh() {
    if (this.isUnknown) return;
    let state;
    try {
      state = await get(topicPath(this.name));
    } catch (error) {
      if (!(error instanceof Refused) || error.kind !== 'unknown-topic') throw error;
      this.showUnknown(error);
      return;
    }
    this.state = state;
    this.show();
    await this.charts.refresh();
    if (this.dead && this.turn % LISTS_EVERY === 0) {
      await Promise.all([this.latest.refresh(), this.dead.refresh(state)]);
    }
    this.turn += 1;
  }

  /** Says that there is no such topic, and offers nothing to do with it. */
  showUnknown(error) {
    this.isUnknown = true;
    this.charts.close();
    this.node.replaceChildren(el('section', { class: 'panel unknown', id: 'unknown' }, el('h1', {}, '404: no such topic'),
      el('p', {}, 'Neither the manifest nor Redis has a topic ', el('code', {}, this.name), '.'), el('p', { class: 'faint' }, error.remedy),
      el('a', { href: '#/' }, 'All topics')));
  }

  show() {
    const { state } = this;
    const marks = badges(state);
    fill(this.marks, marks.map((mark) => mark.textContent).join(), () => marks);
    this.showButtons();
    const all = STATES.map(([name, title]) => [name, name === 'done' ? 'Done, kept' : title, state[name]]);
    const shown = all.filter(([name, , number]) => number > 0 || (name !== 'blocked' && name !== 'done'));
    fill(this.states, JSON.stringify(shown), () => shown.map(([name, title, number]) =>
      el(this.dead ? 'a' : 'div', { class: `tile s-${name}${number ? '' : ' none'}`, 'data-state': name, href: this.dead && browseLink(this.name, name) },
        el('b', {}, count(number)), el('span', {}, title))));
    // In proportion, with done jobs: a few dead ones next to thousands of done ones are a few pixels.
    fill(this.mix, JSON.stringify(shown), () => shown.filter(([, , number]) => number).map(([name, , number]) => {
      const part = el('i', { class: `s-${name}` });
      part.style.flexGrow = String(number);
      return part;
    }));
    this.showHandler();
    this.showHistory();
  }

  showButtons() {
    const { state, app, name } = this;
    const isAdmin = app.may('admin');
    const reported = state.served_by.find((served) => served.before);
    const key = [state.paused, isAdmin, reported?.before, reported?.digest].join();
    const later = () => app.refresh();
    fill(this.buttons, key, () => [
      app.may('push') && button('Push a job', () => this.push(), { class: 'main', id: 'push' }),
      isAdmin && (state.paused
        ? button('Resume', () => actions.resume(name, later), { id: 'resume' })
        : button('Pause', () => actions.pause(name, this.state, later), { id: 'pause' })),
      isAdmin && !state.pulled && button('Check for changes', () => actions.reload(name, later), { id: 'reload' }),
      isAdmin && !state.pulled && button('Roll back', () => actions.rollback(name, reported?.digest ?? '', reported?.before ?? '', later),
        { id: 'rollback', disabled: !reported, title: reported ? '' : 'There is no previous module' }),
    ]);
  }

  showHandler() {
    const { state } = this;
    const modules = new Map();
    for (const served of state.served_by) {
      for (const module of served.modules) {
        const sums = modules.get(module.digest) ?? { jobs: 0, failed: 0, wall: 0, wallMax: 0, memory: 0 };
        sums.jobs += module.jobs;
        sums.failed += module.failed;
        sums.wall += module.wall_ms;
        sums.wallMax = Math.max(sums.wallMax, module.wall_max_ms);
        sums.memory = Math.max(sums.memory, module.memory_peak_bytes);
        modules.set(module.digest, sums);
      }
      if (served.digest && !modules.has(served.digest)) modules.set(served.digest, null);
    }
    const now = new Set(state.digests);
    const canaries = new Map(state.served_by.filter((served) => served.canary).map((served) => [served.canary.digest, served.canary.percent]));
    const before = new Set(state.served_by.map((served) => served.before));
    const withdrawn = new Set(state.served_by.map((served) => served.withdrawn));
    const roles = (digest) => [now.has(digest) && 'serves', canaries.has(digest) && `canary ${canaries.get(digest)} %`,
      before.has(digest) && 'previous', withdrawn.has(digest) && 'rolled back'].filter(Boolean);
    const shown = [...modules].map(([digest, sums]) => ({ digest, sums, roles: roles(digest) }));
    updateTimes(this.handler);
    fill(this.handler, JSON.stringify([shown, state.handler, state.runners, state.pulled, state.consumers]), () => [
      el('p', { class: state.handler ? 'path' : 'faint' }, state.handler ?? (state.pulled ? 'None: consumers lease its jobs over HTTP or with duebox pull.' : 'Not in this daemon’s manifest.')),
      !state.pulled && el('p', { class: 'faint' }, `Served by ${many(state.runners, 'daemon')}.`),
      shown.length > 0 && el('table', { class: 'plain' },
        el('thead', {}, el('tr', {}, ['Module', 'Attempts', 'Failed', 'Mean', 'Max', 'Memory'].map((title, at) =>
          el('th', { scope: 'col', class: at ? 'number' : '' }, title)))),
        el('tbody', {}, shown.map(({ digest, sums, roles: words }) => el('tr', {},
          el('th', { scope: 'row', title: digest }, el('code', {}, short(digest)), words.map((word) => el('span', { class: `badge ${word === 'serves' ? 'good' : 'calm'}` }, word))),
          (sums ? [count(sums.jobs), count(sums.failed), sums.jobs ? span(sums.wall / sums.jobs) : '–', span(sums.wallMax), bytes(sums.memory)] : ['0', '0', '–', '–', '–'])
            .map((text) => el('td', { class: 'number' }, text)))))),
      state.consumers.length > 0 && consumersTable(state.consumers),
    ]);
  }

  showHistory() {
    const events = this.state.served_by.flatMap((served) => served.history.map((event) => ({ ...event, runner: served.runner })));
    events.sort((one, other) => other.at_ms - one.at_ms);
    const isMany = new Set(this.state.served_by.map((served) => served.runner)).size > 1;
    updateTimes(this.history);
    fill(this.history, JSON.stringify(events), () => (events.length === 0
      ? el('p', { class: 'faint' }, this.state.pulled ? 'The topic has no module.' : 'No changes since the daemons started.')
      : el('ol', { class: 'timeline' }, events.map((event) => {
        const [kind, word] = FATES[event.fate] ?? ['calm', event.fate];
        return el('li', { class: kind },
          el('div', {}, el('b', {}, `${event.role === 'canary' ? 'canary ' : ''}${word}`), ' ',
            event.digest && el('code', { title: event.digest }, short(event.digest)), ' ', when(event.at_ms),
            isMany && el('span', { class: 'faint' }, ` in ${event.runner}`)),
          event.reason && el('p', { class: 'reason' }, event.reason));
      }))));
  }

  push() {
    if (this.state && this.app.may('push')) actions.pushOne(this.name, () => this.app.refresh());
  }

  links() {
    return [...this.node.querySelectorAll('.jobs button.id')];
  }

  refreshLists() {
    this.turn = 0;
  }

  close() {
    this.charts.close();
  }
}

/** Who pulls the topic's jobs over HTTP. */
function consumersTable(consumers) {
  const heads = ['Consumer', 'Daemon', 'Jobs', 'Last pull'];
  return el('table', { class: 'plain', id: 'consumers' },
    el('thead', {}, el('tr', {}, heads.map((head) => el('th', { scope: 'col', class: head === 'Jobs' ? 'number' : '' }, head)))),
    el('tbody', {}, consumers.map((one) => el('tr', {}, el('th', { scope: 'row' }, one.name), el('td', {}, el('code', {}, one.runner)),
      el('td', { class: 'number' }, count(one.leased)), el('td', {}, when(one.last_ms))))));
}

function panel(title, body) {
  return el('section', { class: 'panel', 'aria-label': title }, el('h2', {}, title), body);
}
