// One job: its state, its life as a timeline, failure, payload and options; as a sheet over a topic, and as a view
// with a link of its own. Payloads, reasons and logs are untrusted and only ever become text.

import { Refused, get, topicPath } from './api.js';
import * as actions from './actions.js';
import { button, el, fill, short, span, updateTimes, when } from './dom.js';
import { chip } from './states.js';

const LIVE = ['pending', 'ready', 'blocked', 'retry', 'unack'];

/** The states of a job's relatives are asked for at every so many refreshes. */
const RELATIVES_EVERY = 5;

/** The link of a job's view. */
export const jobLink = (topic, id) => `#/topics/${encodeURIComponent(topic)}/jobs/${encodeURIComponent(id)}`;

/** A job. Its timeline has the attempts that Redis and the daemon that answers know. */
const read = (topic, id, withRelatives = true) => get(`${topicPath(topic, 'jobs', id)}${withRelatives ? '?relatives=true' : ''}`);

/** Opens the detail sheet of a job. */
export async function openJob(topic, id, done) {
  let job;
  try {
    job = await read(topic, id);
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
  dialog.append(
    el('div', { class: 'bar' }, el('h2', { id: 'job-title' }, id), chip(job.state), el('span', { class: 'grow' }),
      el('a', { href: jobLink(topic, id), id: 'job-link', on: { click: close } }, 'Link'),
      button('Close', close, { class: 'quiet', 'aria-label': 'Close' })),
    el('div', { class: 'actions' }, buttons(topic, job, done, close)), ...details(job));
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
    let job;
    try {
      job = await read(this.topic, this.id, this.turn % RELATIVES_EVERY === 0);
    } catch (error) {
      if (!(error instanceof Refused) || error.kind !== 'unknown-job') throw error;
      fill(this.state, '', () => []);
      fill(this.buttons, '', () => []);
      fill(this.body, 'unknown', () => el('p', { id: 'unknown-job' },
        'No record of this job is left: it is done and was not kept, its record is past its retention, or it was never pushed. done_retention keeps done jobs.'));
      return;
    }
    this.turn += 1;
    this.relatives = job.relatives ?? this.relatives;
    job.relatives = this.relatives;
    const key = JSON.stringify({ ...job, now_ms: 0 });
    fill(this.state, job.state, () => chip(job.state));
    fill(this.buttons, job.state, () => buttons(this.topic, job, () => this.app.refresh()));
    fill(this.body, key, () => details(job));
    updateTimes(this.body);
  }

  close() {}
}

/** The details of a job, by section. */
function details(job) {
  const parts = [facts(job), section('Timeline', timeline(job)), ...relatives(job)];
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

/** Moments without an attempt, by event: kind, title and text. */
const MOMENTS = {
  pushed: ['calm', 'Pushed'], due: ['calm', 'Due'], 'next attempt': ['calm', 'Next attempt'], requeued: ['calm', 'Requeued'], rescheduled: ['calm', 'Rescheduled'],
  reclaimed: ['warn', 'Reclaimed', 'Its runner died or lost the lease'], released: ['warn', 'Released without an attempt'], snoozed: ['calm', 'Snoozed'],
  superseded: ['calm', 'Replaced by a newer push'], cancelled: ['calm', 'Cancelled'], expired: ['bad', 'Expired'],
  'lease ends': ['calm', 'Lease ends', 'unless its holder renews it'], 'successor due': ['calm', 'Due again', 'It was pushed again while it ran'], 'id free': ['calm', 'Its id is free again'],
};
const ENDS = ['acked', 'retried', 'dead', 'discarded'];

/** The job's life as the daemon tells it, the earliest first. */
function timeline(job) {
  const ended = new Set(job.timeline.filter(({ event, attempt }) => ENDS.includes(event) && attempt).map(({ attempt }) => attempt));
  const rows = job.timeline.flatMap((moment) => rowsOf(moment, ended));
  const failed = job.timeline.filter(({ event, class: failure }) => ENDS.includes(event) && failure).length;
  const earlier = job.failures - failed;
  if (earlier > 0) {
    rows.unshift(row('bad', `${earlier} earlier failed ${earlier === 1 ? 'attempt' : 'attempts'}`, null,
      'in other daemons, or too long ago for this one to remember'));
  }
  return el('ol', { class: 'timeline', id: 'timeline' }, rows);
}

function rowsOf(moment, ended) {
  const { event, attempt, at_ms: at, class: failure, reason, wall_ms: wall, digest, runner } = moment;
  // The end of an attempt says how long it ran.
  if (event === 'started') return ended.has(attempt) ? [] : [row('calm', `Attempt ${attempt} started`, at, runner ? `in ${runner}` : '')];
  if (ENDS.includes(event) && attempt) {
    const text = [reason, wall !== undefined && `ran ${span(wall)}`, digest && `module ${short(digest)}`, runner && `in ${runner}`].filter(Boolean).join(' · ');
    const end = row(failure ? 'bad' : 'good', `Attempt ${attempt}: ${failure ? `${failure}, ${event}` : event}`, at, text, logOf(moment));
    if (event === 'dead') return [end, row('bad', 'Dead', at, 'Kept until it is requeued, purged or past its retention')];
    return event === 'acked' ? [end, row('good', 'Done', at)] : [end];
  }
  if (event === 'dead') return [row('bad', 'Dead', at, [failure, reason].filter(Boolean).join(': '))];
  const [kind, title, text] = MOMENTS[event] ?? ['calm', event];
  return [row(kind, attempt && event !== 'lease ends' ? `${title}, attempt ${attempt}` : title, at, [text, event === 'lease ends' && runner].filter(Boolean).join(' · '))];
}

const row = (kind, title, at, text = '', more = null) => el('li', { class: kind }, el('div', {}, el('b', {}, title), ' ', at ? when(at) : ''),
  text && el('p', { class: 'reason' }, text), more);

/** The log of an attempt, and where it begins. */
function logOf({ log, log_cut: isCut, attempt }) {
  if (!log?.length) return isCut && el('p', { class: 'faint' }, 'Its log is not kept: the logs of this daemon’s attempts have reached 4 MiB.');
  return el('details', { class: 'attempt-log', 'data-attempt': String(attempt) }, el('summary', {}, `Log, ${log.length === 1 ? '1 line' : `${log.length} lines`}`),
    isCut && el('p', { class: 'faint' }, 'Earlier lines are not kept.'), el('pre', { tabindex: '0' }, log.join('\n')));
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
