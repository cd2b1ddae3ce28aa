// The jobs of a topic: live jobs, recent attempts and dead jobs.

import { get, topicPath } from './api.js';
import * as actions from './actions.js';
import { CLASSES } from './classes.js';
import { Rows, button, count, el, setText, span, when } from './dom.js';
import { openJob } from './job.js';
import { chip } from './states.js';

const PAGE = 25;

const TIME_WORDS = { unack: 'lease ends', ready: 'due', blocked: 'due', retry: 'next try', pending: 'due' };

/** A cell with a label for layouts without a table header. */
const cell = (label, ...children) => el('td', { 'data-label': label }, ...children);

/** A button that opens the detail sheet of a job. */
const opener = (topic, id, done) => button(id, () => openJob(topic, id, done), { class: 'id', 'data-id': id, title: `Details of ${id}` });

/** The dead jobs of a topic. */
export class DeadJobs {
  constructor(app, topic, done) {
    this.topic = topic;
    this.done = done;
    this.mayAct = app.may('admin');
    this.state = { dead: 0 };
    this.limit = PAGE;
    this.choice = el('select', { id: 'class', 'aria-label': 'Class', on: { change: () => this.choose() } },
      el('option', { value: '' }, 'All classes'), CLASSES.map((name) => el('option', { value: name }, name)));
    const act = (action) => () => action(topic, this.choice.value, this.state.dead, done);
    this.requeueAll = button('Requeue all', act(actions.requeueAll), { id: 'requeue-all' });
    this.purge = button('Purge', act(actions.purge), { id: 'purge', class: 'danger quiet' });
    this.number = el('span', { class: 'shown' });
    this.list = new Rows(['Job', 'Died', 'Class', 'Attempt', 'Reason', ''], (job) => this.row(job), 'plain cards');
    this.more = button('Show more', () => this.showMore(), { class: 'quiet', hidden: true });
    this.node = el('section', { class: 'panel jobs', id: 'dead', 'aria-label': 'Dead jobs' },
      el('div', { class: 'bar' }, el('h2', {}, 'Dead jobs'), this.number, el('span', { class: 'grow' }), this.choice,
        this.mayAct && this.requeueAll, this.mayAct && this.purge),
      this.list.node, this.more);
  }

  choose() {
    this.limit = PAGE;
    this.refresh(this.state).catch(actions.sayRefused);
  }

  showMore() {
    this.limit = Math.min(1_000, this.limit * 4);
    this.refresh(this.state).catch(actions.sayRefused);
  }

  async refresh(state) {
    this.state = state;
    const wanted = this.choice.value;
    const query = new URLSearchParams({ limit: this.limit, ...(wanted && { class: wanted }) });
    const page = await get(`${topicPath(this.topic, 'dead')}?${query}`);
    if (wanted !== this.choice.value) return;
    setText(this.number, count(state.dead));
    setText(this.requeueAll, wanted ? `Requeue ${wanted}` : 'Requeue all');
    setText(this.purge, wanted ? `Purge ${wanted}` : 'Purge');
    for (const node of [this.requeueAll, this.purge]) node.disabled = state.dead === 0;
    this.more.hidden = !page.next || this.limit >= 1_000;
    this.list.show(page.jobs, state.dead ? 'No recent dead job has this class.' : 'No dead jobs.');
  }

  row(job) {
    return el('tr', {}, el('th', { scope: 'row' }, opener(this.topic, job.id, this.done)), cell('Died', when(job.died_at_ms)),
      cell('Class', el('span', { class: 'chip s-dead' }, job.class ?? 'unknown')), cell('Attempt', job.attempt ?? '–'),
      el('td', { class: 'reason', 'data-label': 'Reason' }, el('span', {}, job.reason ?? '')),
      el('td', { class: 'end' }, this.mayAct && button('Requeue', () => actions.requeue(this.topic, job.id, this.done), { class: 'small requeue' })));
  }
}

/** Live jobs and recent attempts. */
export class LiveJobs {
  constructor(topic, done) {
    this.topic = topic;
    this.done = done;
    this.live = new Rows(['Job', 'State', 'When'], (job) => this.job(job), 'plain cards lines');
    this.attempts = new Rows(['Job', 'Result', 'Took', 'When'], (attempt) => this.attempt(attempt), 'plain cards lines');
    this.live.node.id = 'live-jobs';
    this.attempts.node.id = 'attempts';
    this.node = el('div', { class: 'two' },
      el('section', { class: 'panel jobs', 'aria-label': 'Running and next' }, el('h2', {}, 'Running and next'), this.live.node),
      el('section', { class: 'panel jobs', 'aria-label': 'Recent attempts' }, el('h2', {}, 'Recent attempts', el('small', {}, 'in this daemon')), this.attempts.node));
  }

  async refresh() {
    const { jobs, latest } = await get(`${topicPath(this.topic, 'jobs')}?limit=8`);
    this.live.show(jobs, 'No job waits or runs.');
    this.attempts.show(latest, 'This daemon has run no job of this topic since it started.');
  }

  job(job) {
    return el('tr', {}, el('th', { scope: 'row' }, opener(this.topic, job.id, this.done)), el('td', {}, chip(job.state)),
      el('td', {}, el('span', { class: 'faint' }, `${TIME_WORDS[job.state]} `), when(job.at_ms)));
  }

  attempt(attempt) {
    const isGood = attempt.settled === 'done' && !attempt.class;
    const kind = isGood ? 'good' : attempt.settled === 'dead' ? 'bad' : 'warn';
    const word = attempt.class ? `${attempt.class} → ${attempt.settled}` : attempt.settled;
    return el('tr', { title: attempt.reason }, el('th', { scope: 'row' }, opener(this.topic, attempt.id, this.done),
      attempt.attempt > 1 && el('span', { class: 'faint' }, ` #${attempt.attempt}`)),
    el('td', {}, el('span', { class: `badge ${kind}` }, word)),
    el('td', { title: `started ${span(attempt.late_ms)} after it was due` }, span(attempt.wall_ms)), el('td', {}, when(attempt.at_ms)));
  }
}
