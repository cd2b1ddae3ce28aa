// Why attempts fail: the causes, by topic, class, module and reason, as a panel and as a view of its own.

import { toneOf } from './classes.js';
import { Rows, button, count, el, setText, short, when } from './dom.js';
import { History } from './history.js';

/** The causes of failures, the most recent first. A topic's page leaves the topic out. */
export class Causes {
  constructor(app, most, topic = null) {
    Object.assign(this, { app, most, topic });
    const heads = [...(topic ? [] : ['Topic']), 'Class', 'Reason', 'Attempts', 'Since', 'Last', 'Module', 'Last job'];
    this.list = new Rows(heads, (cause) => this.row(cause), 'plain cards causes');
    this.more = button('All failures', () => { location.hash = '#/failures'; }, { class: 'small quiet', hidden: true });
    this.node = el('section', { class: 'panel', id: 'causes', 'aria-label': 'Why attempts failed', hidden: true },
      el('div', { class: 'bar' }, el('h2', {}, 'Why attempts failed'), el('span', { class: 'grow' }), this.more), this.list.node);
  }

  show(causes) {
    // An empty panel says nothing, except in the view of all failures.
    this.node.hidden = causes.length === 0 && this.most < 100;
    this.more.hidden = causes.length <= this.most;
    this.list.show(causes.slice(0, this.most), 'No attempt has failed since the daemons started.');
  }

  row(cause) {
    const cell = (label, ...children) => el('td', { 'data-label': label }, ...children);
    const topic = `#/topics/${encodeURIComponent(cause.topic)}`;
    return el('tr', { 'data-topic': cause.topic, 'data-class': cause.class },
      !this.topic && el('th', { scope: 'row' }, el('a', { href: topic }, cause.topic)),
      cell('Class', el('span', { class: `key ${toneOf(cause.class)}` }, cause.class)),
      el('td', { class: 'reason', 'data-label': 'Reason' }, el('span', {}, cause.reason || '–')),
      el('td', { class: 'number', 'data-label': 'Attempts' }, count(cause.attempts)),
      cell('Since', when(cause.first_ms)), cell('Last', when(cause.last_ms)),
      cell('Module', cause.digest ? el('code', { title: cause.digest }, short(cause.digest)) : '–'),
      cell('Last job', el('a', { class: 'id', href: `${topic}/jobs/${encodeURIComponent(cause.job)}` }, cause.job)));
  }
}

/** The view of all failures. */
export class FailuresPage {
  constructor(app) {
    this.title = 'Failures';
    this.follows = '*';
    this.causes = new Causes(app, 100);
    this.history = new History({ kinds: ['failures', 'throughput'], onLoad: (history) => this.causes.show(history.failures) });
    this.note = el('p', { class: 'faint' });
    setText(this.note, 'Counts are of the running daemons since they started; a reason that did not occur for an hour counts anew. Reasons that differ only in numbers are one.');
    this.node = el('section', { 'aria-label': 'Failures' }, el('div', { class: 'bar' }, el('h1', {}, 'Failures'), el('span', { class: 'grow' }), this.history.bar),
      this.history.node, this.causes.node, this.note);
  }

  async refresh() {
    await this.history.refresh();
  }

  links() {
    return [...this.node.querySelectorAll('#causes tbody a')];
  }

  close() {
    this.history.close();
  }
}
