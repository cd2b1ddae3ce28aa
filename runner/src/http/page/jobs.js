// The jobs of a topic: live jobs, recent attempts, dead jobs, and the detail sheet of one job. Payloads, reasons and
// logs are untrusted and only ever become text.

import { Refused, get, topicPath } from './api.js';
import * as actions from './actions.js';
import { Rows, button, count, el, setText, short, span, when } from './dom.js';

const PAGE = 25;

/** All failure classes. A test compares them with the daemon's list. */
const CLASSES = ['nack', 'drop', 'trap', 'timeout', 'out_of_memory', 'out_of_fuel', 'stack_overflow', 'exit',
  'bad_verdict', 'crashed', 'expired', 'bad_due', 'bad_options', 'orphan'];

const STATE_WORDS = { unack: 'running', ready: 'ready', blocked: 'blocked', retry: 'retry', pending: 'not yet due', dead: 'dead', done: 'done', held: 'done' };
const TIME_WORDS = { unack: 'lease ends', ready: 'due', blocked: 'due', retry: 'next try', pending: 'due' };

const chip = (state) => el('span', { class: `chip s-${state}` }, STATE_WORDS[state] ?? state);

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

/** Opens the detail sheet of a job. */
async function openJob(topic, id, done) {
  let job;
  try {
    job = await get(topicPath(topic, 'jobs', id));
  } catch (error) {
    if (error instanceof Refused && error.kind === 'unknown-job') {
      actions.say(`${id} is done and was not kept.`, 'calm', 'Set done_retention to keep done jobs.');
      return;
    }
    actions.sayRefused(error);
    return;
  }
  const dialog = el('dialog', { class: 'sheet', id: 'job', 'aria-labelledby': 'job-title' });
  const close = () => dialog.close();
  const then = (action) => () => {
    close();
    action(topic, id, done);
  };
  const isWaiting = ['pending', 'retry'].includes(job.state);
  dialog.append(
    el('div', { class: 'bar' }, el('h2', { id: 'job-title' }, id), chip(job.state), el('span', { class: 'grow' }),
      button('Close', close, { class: 'quiet', 'aria-label': 'Close' })),
    el('div', { class: 'actions' },
      job.dead && button('Requeue', then(actions.requeue), { class: 'main', id: 'requeue' }),
      isWaiting && button('Run now', then(actions.runNow), { class: 'main', id: 'run-now' }),
      job.dead && button('Purge', then(actions.purgeOne), { class: 'danger quiet', id: 'forget' }),
      ['pending', 'ready', 'blocked', 'retry', 'unack'].includes(job.state) && button('Cancel job', then(actions.cancel), { class: 'danger quiet', id: 'drop' })),
    ...details(job));
  actions.open(dialog);
}

/** The details of a job, by section. */
function details(job) {
  const parts = [facts(job)];
  const failure = job.dead?.info ?? job.last_error;
  if (failure) {
    parts.push(section(job.dead ? 'Failure' : 'Last failure', el('p', { class: 'reason', id: 'reason' },
      el('span', { class: 'chip s-dead' }, failure.class ?? 'unknown'), ` ${failure.reason ?? ''}`)));
    if (failure.trace) parts.push(section('Trace', el('pre', { id: 'trace' }, failure.trace)));
    if (failure.log?.length) parts.push(section('Log', el('pre', { id: 'log' }, failure.log.join('\n'))));
  }
  if (job.payload !== undefined) parts.push(section('Payload', el('pre', { id: 'payload-text' }, pretty(job.payload))));
  if (job.payload_base64 !== undefined) parts.push(section('Payload, base64', el('pre', { id: 'payload-text' }, job.payload_base64)));
  if (job.done?.result !== undefined) parts.push(section('Result', el('pre', {}, pretty(job.done.result))));
  if (job.options && Object.keys(job.options).length) parts.push(section('Options', el('pre', {}, JSON.stringify(job.options, null, 2))));
  if (job.options_error) parts.push(section('Options', el('p', { class: 'reason' }, job.options_error)));
  return parts;
}

function facts(job) {
  const info = job.dead?.info ?? job.done?.info ?? job.last_error ?? {};
  const all = [
    ['Due', job.due_at_ms !== undefined && when(job.due_at_ms)],
    ['Died', job.dead && when(job.dead.died_at_ms)],
    ['Done', job.done && when(job.done.done_at_ms)],
    ['Attempt', info.attempt],
    ['Took', info.wall_ms !== undefined && span(info.wall_ms)],
    ['Module', info.digest && el('code', { title: info.digest }, short(info.digest))],
    ['Failures', job.failures || undefined],
    ['Crashes', job.crashes || undefined],
    ['Snoozes', job.snoozes || undefined],
    ['Key', job.key],
    ['Held by', job.lease && (job.lease.holder ?? 'unknown')],
    ['Lease ends', job.lease && when(job.lease.expires_at_ms)],
  ];
  return el('dl', { class: 'facts' }, all.filter(([, value]) => value !== undefined && value !== false && value !== null)
    .map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

const section = (title, body) => el('section', {}, el('h3', {}, title), body);

/** Indents JSON; returns any other text unchanged. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
