// The running daemons and Redis: what each runs, its slots, memory and version; memory, disk and commands of Redis.

import { get } from './api.js';
import { bytes, count, el, fill, many, short, span, updateTimes, when } from './dom.js';
import { History } from './history.js';

/** A daemon that has not reported for so long is late. */
const SILENT_MS = 15_000;
/** Redis is asked less often than the daemons. */
const REDIS_EVERY = 5;

/** Rows of a name and a value. */
const list = (rows) => el('dl', { class: 'facts' }, rows.filter(([, value]) => value !== null && value !== undefined)
  .map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));

const badge = (kind, text) => el('span', { class: `badge ${kind}` }, text);

/** The view of the daemons. */
export class DaemonsPage {
  constructor() {
    this.title = 'Daemons';
    /** The daemons whose topics are unfolded. */
    this.open = new Set();
    this.list = el('div', { class: 'cards-grid', id: 'daemons' });
    this.node = el('section', { 'aria-label': 'Daemons' }, el('div', { class: 'bar' }, el('h1', {}, 'Daemons')), this.list);
  }

  async refresh() {
    const { runners } = await get('/v1/runners');
    const modules = newest(runners);
    fill(this.list, JSON.stringify(runners), () => runners.map((runner) => card(runner, modules, this.open)));
    updateTimes(this.list);
  }

  close() {}
}

/** The modules of each topic over all daemons: where they differ, a deploy is under way or one daemon missed it. */
function newest(runners) {
  const modules = new Map();
  for (const { topic, digest } of runners.flatMap((runner) => runner.topics)) {
    if (!modules.has(topic)) modules.set(topic, new Set());
    modules.get(topic).add(digest);
  }
  return modules;
}

function card(runner, modules, open) {
  const { process } = runner;
  const silent = runner.reported_at_ms < Date.now() - SILENT_MS;
  const differ = runner.topics.filter(({ topic }) => modules.get(topic).size > 1).length;
  return el('section', { class: 'panel', 'aria-label': runner.runner, 'data-runner': runner.runner },
    el('div', { class: 'bar' }, el('h2', {}, process.host || runner.runner), el('span', { class: 'badges' },
      runner.this && badge('good', 'this one'), silent && badge('bad', 'silent'), differ > 0 && badge('warn', 'modules differ'),
      runner.manifest_problem && badge('bad', 'manifest refused'))),
    runner.manifest_problem && el('p', { class: 'reason' }, runner.manifest_problem),
    list([
      ['Runner', el('code', {}, runner.runner)],
      ['Version', runner.version],
      ['Running since', when(runner.started_at_ms)],
      ['Slots in use', `${count(process.slots_used)} of ${count(process.slots)}`],
      ['Memory', process.memory_bytes && bytes(process.memory_bytes)],
      ['Memory of guests', bytes(process.guest_memory_bytes)],
      ['Redis round trip', process.redis_ms === null ? null : span(process.redis_ms)],
      ['API', runner.api],
      ['Process', String(runner.pid)],
    ]),
    el('details', { open: open.has(runner.runner), on: { toggle: ({ target }) => open[target.open ? 'add' : 'delete'](runner.runner) } }, el('summary', {}, [many(runner.topics.length + runner.more_topics, 'topic'), runner.pulled.length && `${count(runner.pulled.length)} pulled`].filter(Boolean).join(', ')),
      runner.topics.length > 0 && el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, ['Topic', 'Module', 'Attempts', 'Failed'].map((head, at) => el('th', { scope: 'col', class: at > 1 ? 'number' : '' }, head)))),
        el('tbody', {}, runner.topics.map((topic) => el('tr', {},
          el('th', { scope: 'row' }, el('a', { href: `#/topics/${encodeURIComponent(topic.topic)}` }, topic.topic)),
          el('td', {}, topic.digest ? el('code', { title: topic.digest }, short(topic.digest)) : badge('bad', 'none')),
          el('td', { class: 'number' }, count(topic.attempts)), el('td', { class: `number failed${topic.failed ? '' : ' none'}` }, count(topic.failed)))))),
    runner.pulled.length > 0 && pulledTable(runner)));
}

/** The topics whose jobs were pulled over a daemon's API, and by whom. */
function pulledTable({ pulled, runner }) {
  const heads = ['Pulled topic', 'Consumers', 'Attempts', 'Failed'];
  const consumer = ({ name, leased, last_ms: lastMs }) => el('div', {}, el('code', {}, name), el('span', { class: 'faint' }, ` ${many(leased, 'job')}, last pull `), when(lastMs));
  return el('table', { class: 'plain', 'data-pulled': runner },
    el('thead', {}, el('tr', {}, heads.map((head, at) => el('th', { scope: 'col', class: at > 1 ? 'number' : '' }, head)))),
    el('tbody', {}, pulled.map((topic) => el('tr', {}, el('th', { scope: 'row' }, el('a', { href: `#/topics/${encodeURIComponent(topic.topic)}` }, topic.topic)),
      el('td', {}, topic.consumers.map(consumer)),
      el('td', { class: 'number' }, count(topic.attempts)), el('td', { class: `number failed${topic.failed ? '' : ' none'}` }, count(topic.failed))))));
}

/** The view of Redis. */
export class RedisPage {
  constructor() {
    this.title = 'Redis';
    this.turn = 0;
    this.facts = el('div', { class: 'panel', id: 'redis-facts' });
    this.commands = el('div', { class: 'panel panel-body', id: 'redis-commands' });
    this.slow = el('div', { class: 'panel panel-body', id: 'redis-slow' });
    this.away = el('p', { class: 'reason', id: 'redis-outage' });
    this.history = new History({ kinds: ['redis', 'waiting'], onLoad: (history) => this.showOutage(outageOf(history)) });
    this.node = el('section', { 'aria-label': 'Redis' }, el('div', { class: 'bar' }, el('h1', {}, 'Redis'), el('span', { class: 'grow' }), this.history.bar),
      this.away, this.history.node, this.facts, this.commands, this.slow);
  }

  async refresh() {
    await this.history.refresh();
    // After a failure it is asked again at once: the turn goes on with an answer only.
    const redis = this.turn % REDIS_EVERY === 0 && await get('/v1/redis');
    this.turn += 1;
    updateTimes(this.node);
    if (!redis) return;
    fill(this.facts, JSON.stringify(redis), () => [el('h2', {}, redis.version), el('span', { class: 'badges' },
      !redis.disk_ok && badge('bad', 'cannot write to its disk'), redis.aof === false && badge('warn', 'no append-only file'),
      redis.eviction && redis.eviction !== 'noeviction' && badge('bad', `evicts: ${redis.eviction}`)), this.describe(redis)]);
    fill(this.commands, JSON.stringify(redis.commands), () => table(redis.commands));
    fill(this.slow, JSON.stringify([redis.slow, redis.slow_refused]), () => slowCalls(redis));
  }

  /** Says since when Redis does not answer, or when it did not for the last time. */
  showOutage(outage) {
    fill(this.away, JSON.stringify(outage), () => (!outage ? [] : outage.isOver
      ? ['Redis did not answer from ', when(outage.fromMs), ' to ', when(outage.untilMs), '.'].map(part)
      : ['Redis has not answered since ', when(outage.fromMs), '.'].map(part)));
  }

  describe(redis) {
    const memory = redis.memory_max_bytes ? `${bytes(redis.memory_bytes)} of ${bytes(redis.memory_max_bytes)}` : bytes(redis.memory_bytes ?? 0);
    return list([
      ['Memory of data', memory],
      ['Memory of the process', redis.memory_rss_bytes && bytes(redis.memory_rss_bytes)],
      ['Append-only file', redis.aof === null ? null : redis.aof ? 'on' : 'off'],
      ['Last snapshot', redis.saved_at_s && when(redis.saved_at_s * 1_000)],
      ['Writes since', redis.changes_since_save === null ? null : count(redis.changes_since_save)],
      ['Commands', redis.commands_per_s === null ? null : `${count(redis.commands_per_s)}/s`],
      ['Clients', redis.clients === null ? null : `${count(redis.clients)}, ${count(redis.blocked_clients ?? 0)} blocked`],
      ['Replicas', redis.replicas === null ? null : count(redis.replicas)],
      ['Up for', redis.uptime_s === null ? null : span(redis.uptime_s * 1_000)],
    ]);
  }

  close() {
    this.history.close();
  }
}

const part = (text) => (typeof text === 'string' ? el('span', {}, text) : text);

/** A round trip of this length counts as no answer. */
const STUCK_MS = 1_000;

/** The last range of steps in which Redis did not answer. */
function outageOf({ redis_away: away, redis_ms: roundTrips, from_ms: fromMs, step_ms: stepMs }) {
  const isStuck = (step) => away[step] === 1 || (roundTrips[step] ?? 0) >= STUCK_MS;
  let last = away.length - 1;
  while (last >= 0 && !isStuck(last)) last -= 1;
  if (last < 0) return null;
  let first = last;
  while (first > 0 && isStuck(first - 1)) first -= 1;
  return { fromMs: fromMs + first * stepMs, untilMs: fromMs + (last + 1) * stepMs, isOver: last < away.length - 2 };
}

/** The slow calls that Redis has logged, or why it does not tell them. */
function slowCalls({ slow, slow_refused: refused }) {
  const title = el('h2', {}, 'Slow calls', el('small', {}, 'above slowlog-log-slower-than of Redis, 10 ms by default; the last 20'));
  if (!slow) return [title, el('p', { class: 'reason' }, `Redis does not tell them: ${refused}`)];
  if (slow.length === 0) return [title, el('p', { class: 'faint' }, 'None since Redis started or its log was reset.')];
  const heads = ['Command', 'Key', 'Took', 'When', 'Client'];
  return [title, el('table', { class: 'plain cards lines slow' }, el('thead', {}, el('tr', {}, heads.map((head) => el('th', { scope: 'col', class: head === 'Took' ? 'number' : '' }, head)))),
    el('tbody', {}, slow.map((call) => el('tr', {}, el('th', { scope: 'row' }, el('code', {}, call.command)), el('td', { class: 'path' }, call.key ?? '–'),
      el('td', { class: 'number' }, span(call.took_ms)), el('td', {}, when(call.at_s * 1_000)), el('td', { class: 'path' }, call.client)))))];
}

function table(commands) {
  const micros = (us) => (us === null ? '–' : span(us / 1_000));
  const heads = ['Command', 'Calls', 'Total', 'Mean', 'p99'];
  return [el('h2', {}, 'Commands', el('small', {}, 'that took the most time since Redis started')),
    el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, heads.map((head, at) => el('th', { scope: 'col', class: at ? 'number' : '' }, head)))),
      el('tbody', {}, commands.map((one) => el('tr', {}, el('th', { scope: 'row' }, el('code', {}, one.name)),
        [count(one.calls), span(one.total_ms), micros(one.mean_us), micros(one.p99_us)].map((text) => el('td', { class: 'number' }, text))))))];
}
