// One job: its state, its life as a timeline, failure, payload and options; as a sheet over a topic, and as a view
// with a link of its own. Payloads, reasons and logs are untrusted and only ever become text.

import { Refused, get, topicPath } from './api.js';
import * as actions from './actions.js';
import { button, el, fill, short, span, updateTimes, when } from './dom.js';
import { chip } from './states.js';

const LIVE = ['pending', 'ready', 'blocked', 'retry', 'unack'];

/** The states of a job's relatives are asked for at every so many refreshes. */
const RELATIVES_EVERY = 5;

/** Attempts are timed by their daemon and ends by Redis: an end within this time before an attempt is its end. */
const CLOCKS_MS = 2_000;

/** The link of a job's view. */
export const jobLink = (topic, id) => `#/topics/${encodeURIComponent(topic)}/jobs/${encodeURIComponent(id)}`;

/** A job, and its attempts as far as this daemon remembers them. */
async function read(topic, id, withRelatives = true) {
  const job = await get(`${topicPath(topic, 'jobs', id)}${withRelatives ? '?relatives=true' : ''}`);
  const list = await get(`${topicPath(topic, 'jobs')}?limit=1`).catch(() => ({ latest: [] }));
  return { job, attempts: list.latest.filter((attempt) => attempt.id === id) };
}

/** Opens the detail sheet of a job. */
export async function openJob(topic, id, done) {
  let found;
  try {
    found = await read(topic, id);
  } catch (error) {
    if (error instanceof Refused && error.kind === 'unknown-job') {
      actions.say(`${id} is done and was not kept.`, 'calm', 'Set done_retention to keep done jobs.');
      return;
    }
    actions.sayRefused(error);
    return;
  }
  const { job, attempts } = found;
  const dialog = el('dialog', { class: 'sheet', id: 'job', 'aria-labelledby': 'job-title' });
  const close = () => dialog.close();
  dialog.append(
    el('div', { class: 'bar' }, el('h2', { id: 'job-title' }, id), chip(job.state), el('span', { class: 'grow' }),
      el('a', { href: jobLink(topic, id), id: 'job-link', on: { click: close } }, 'Link'),
      button('Close', close, { class: 'quiet', 'aria-label': 'Close' })),
    el('div', { class: 'actions' }, buttons(topic, job, done, close)), ...details(job, attempts));
  actions.open(dialog);
}

/** What can be done about a job in its state. The daemon refuses what the session may not do. */
function buttons(topic, job, done, before = () => {}) {
  const then = (action) => () => {
    before();
    action(topic, job.id, done);
  };
  return [
    job.dead && button('Requeue', then(actions.requeue), { class: 'main', id: 'requeue' }),
    ['pending', 'retry'].includes(job.state) && button('Run now', then(actions.runNow), { class: 'main', id: 'run-now' }),
    job.dead && button('Purge', then(actions.purgeOne), { class: 'danger quiet', id: 'forget' }),
    LIVE.includes(job.state) && button('Cancel job', then(actions.cancel), { class: 'danger quiet', id: 'drop' }),
  ];
}

/** The view of a job. */
export class JobPage {
  constructor(app, topic, id) {
    Object.assign(this, { app, topic, id });
    this.title = `${id} · ${topic}`;
    [this.follows, this.onlyJob] = [topic, id];
    this.turn = 0;
    this.state = el('span', {});
    this.buttons = el('div', { class: 'actions' });
    this.body = el('div', { class: 'panel job-body' });
    this.node = el('article', { class: 'topic', 'aria-label': `Job ${id}` },
      el('div', { class: 'head' }, el('a', { class: 'back', href: `#/topics/${encodeURIComponent(topic)}` }, `← ${topic}`),
        el('div', { class: 'bar' }, el('h1', { id: 'job-title' }, id), this.state, el('span', { class: 'grow' }), this.buttons)),
      this.body);
  }

  async refresh() {
    let found;
    try {
      found = await read(this.topic, this.id, this.turn % RELATIVES_EVERY === 0);
    } catch (error) {
      if (!(error instanceof Refused) || error.kind !== 'unknown-job') throw error;
      fill(this.state, '', () => []);
      fill(this.buttons, '', () => []);
      fill(this.body, 'unknown', () => el('p', { id: 'unknown-job' },
        'No record of this job is left: it is done and was not kept, its record is past its retention, or it was never pushed. done_retention keeps done jobs.'));
      return;
    }
    const { job, attempts } = found;
    this.turn += 1;
    this.relatives = job.relatives ?? this.relatives;
    job.relatives = this.relatives;
    const key = JSON.stringify(found);
    fill(this.state, job.state, () => chip(job.state));
    fill(this.buttons, job.state, () => buttons(this.topic, job, () => this.app.refresh()));
    fill(this.body, key, () => details(job, attempts));
    updateTimes(this.body);
  }

  close() {}
}

/** The details of a job, by section. */
function details(job, attempts) {
  const parts = [facts(job), section('Timeline', timeline(job, attempts)), ...relatives(job)];
  const failure = job.dead?.info ?? job.last_error;
  if (failure) {
    parts.push(section(job.dead ? 'Failure' : 'Last failure', el('p', { class: 'reason', id: 'reason' },
      el('span', { class: 'chip s-dead' }, failure.class ?? 'unknown'), ` ${failure.reason ?? ''}`)));
    if (failure.trace) parts.push(section('Trace', el('pre', { id: 'trace', tabindex: '0' }, failure.trace)));
    if (failure.log?.length) parts.push(section('Log', el('pre', { id: 'log', tabindex: '0' }, failure.log.join('\n'))));
  }
  const headers = Object.entries(job.options?.headers ?? {});
  if (headers.length) parts.push(section('Headers', el('dl', { class: 'facts', id: 'headers' }, headers.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))))));
  if (job.payload !== undefined) parts.push(section('Payload', el('pre', { id: 'payload-text', tabindex: '0' }, pretty(job.payload))));
  if (job.payload_base64 !== undefined) parts.push(section('Payload, base64', el('pre', { id: 'payload-text', tabindex: '0' }, job.payload_base64)));
  if (job.done?.result !== undefined) parts.push(section('Result', el('pre', { tabindex: '0' }, pretty(job.done.result))));
  const { headers: _, ...options } = job.options ?? {};
  if (Object.keys(options).length) parts.push(section('Options', el('pre', { tabindex: '0' }, JSON.stringify(options, null, 2))));
  if (job.options_error) parts.push(section('Options', el('p', { class: 'reason' }, job.options_error)));
  return parts;
}

/** The job that pushed this one, and the jobs that its ack pushed, as links with their states. */
function relatives(job) {
  const all = job.relatives ?? [];
  const kept = (one) => (one.state ? chip(one.state) : el('span', { class: 'faint' }, one.readable
    ? 'no record: done and not kept, past its retention, or not pushed yet' : 'this session may not read its topic'));
  const list = (role) => all.filter((one) => one.role === role).map((one) => el('li', { class: { dead: 'bad', done: 'good' }[one.state] ?? 'calm' },
    el('a', { class: 'id', href: jobLink(one.topic, one.id) }, one.id), el('span', { class: 'faint' }, ` in ${one.topic} `), kept(one)));
  const [parents, children] = [list('parent'), list('follow_up')];
  return [
    parents.length > 0 && section('Parent', el('ul', { class: 'timeline', id: 'parent' }, parents)),
    children.length > 0 && section('Follow-ups', el('ul', { class: 'timeline', id: 'follow-ups' }, children)),
  ].filter(Boolean);
}

/** What is known of the job's life, the earliest first. */
function timeline(job, attempts) {
  const events = attempts.map((attempt) => ({
    at: attempt.at_ms,
    kind: attempt.class ? 'bad' : attempt.settled === 'done' ? 'good' : 'warn',
    title: `Attempt ${attempt.attempt}: ${attempt.class ? `${attempt.class}, ${attempt.settled}` : attempt.settled}`,
    text: [attempt.reason, `ran ${span(attempt.wall_ms)}, started ${span(attempt.late_ms)} after it was due`, attempt.digest && `module ${short(attempt.digest)}`].filter(Boolean).join(' · '),
  }));
  const info = job.dead?.info ?? job.done?.info ?? job.last_error;
  const isListed = attempts.some((attempt) => attempt.attempt === info?.attempt);
  if (info?.attempt && !isListed) {
    events.push({
      at: job.dead?.died_at_ms ?? job.done?.done_at_ms ?? info.at_ms, order: -1, kind: info.class ? 'bad' : 'good', title: `Attempt ${info.attempt}: ${info.class ?? 'acked'}`,
      text: [info.reason, info.wall_ms !== undefined && `ran ${span(info.wall_ms)}`, info.digest && `module ${short(info.digest)}`].filter(Boolean).join(' · '),
    });
  }
  addMoments(job, events);
  const add = (at, kind, title, text = '', order = 0) => at !== undefined && at !== null && events.push({ at, kind, title, text, order });
  add(job.dead?.died_at_ms, 'bad', 'Dead', 'Kept until it is requeued, purged or past its retention', CLOCKS_MS);
  add(job.done?.done_at_ms, 'good', 'Done', '', CLOCKS_MS);
  add(job.lease && Math.max(job.lease.expires_at_ms, 0), 'calm', 'Lease ends', `unless ${job.lease?.holder ?? 'its holder'} renews it`);
  if (LIVE.includes(job.state) && !job.lease) add(job.due_at_ms, 'calm', job.state === 'retry' ? 'Next attempt' : 'Due');
  add(job.successor_due_at_ms, 'calm', 'Due again', 'It was pushed again while it ran');
  const place = ({ at = 0, order = 0 }) => at + order;
  events.sort((one, other) => place(one) - place(other));
  const earlier = job.failures - events.filter((event) => event.kind === 'bad' && event.title.startsWith('Attempt')).length;
  if (earlier > 0) events.unshift({ kind: 'bad', title: `${earlier} earlier failed ${earlier === 1 ? 'attempt' : 'attempts'}`, text: 'in other daemons, or too long ago for this one to remember' });
  return el('ol', { class: 'timeline', id: 'timeline' }, events.map(({ at, kind, title, text }) =>
    el('li', { class: kind }, el('div', {}, el('b', {}, title), ' ', at ? when(at) : ''), text && el('p', { class: 'reason' }, text))));
}

/** Moments of a job's life that only the daemon knows, most of them from events. */
const MOMENTS = { pushed: 'Pushed', requeued: 'Requeued', rescheduled: 'Rescheduled', reclaimed: 'Reclaimed: its runner died or lost the lease',
  released: 'Released without an attempt', snoozed: 'Snoozed', superseded: 'Replaced by a newer push', cancelled: 'Cancelled', expired: 'Expired' };
const ENDS = ['acked', 'retried', 'dead', 'discarded'];

/** Adds what the daemon tells of the job's life, and attempts that are not known otherwise. */
function addMoments(job, events) {
  const known = new Set(events.map((event) => /^Attempt (\d+):/.exec(event.title)?.[1]));
  for (const { event, attempt, at_ms: at, class: failure, digest } of job.timeline) {
    if (MOMENTS[event]) events.push({ at, kind: 'calm', title: MOMENTS[event], text: '', order: event === 'pushed' ? -1 : 0 });
    if (ENDS.includes(event) && attempt && !known.has(String(attempt))) {
      events.push({ at, kind: failure ? 'bad' : 'good', title: `Attempt ${attempt}: ${failure ?? event}`, text: digest ? `module ${short(digest)}` : '' });
    }
  }
}

/** The trace id of a W3C traceparent. */
const traceId = (job) => /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(job.options?.headers?.traceparent ?? '')?.[1];

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
    ['Key', job.key ?? job.options?.key],
    ['Trace id', traceId(job) && el('code', {}, traceId(job))],
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
