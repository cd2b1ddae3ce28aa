// The schedules of the manifest: when each runs next, when it ran last and what came of it, and a button to run it now.

import { Refused, get, post, topicPath } from './api.js';
import * as actions from './actions.js';
import { button, clock, el, fill, span, updateTimes, when } from './dom.js';
import { jobLink } from './job.js';
import { wordOf } from './states.js';

/** The outcomes of at most so many schedules are asked for. */
const OUTCOMES_MAX = 50;
const ENDED = ['done', 'dead', 'gone'];

/** The view of the schedules. */
export class SchedulesPage {
  constructor(app) {
    this.app = app;
    this.title = 'Schedules';
    this.outcomes = new Map();
    this.body = el('div', { class: 'panel panel-body', id: 'schedules' });
    this.node = el('section', { 'aria-label': 'Schedules' }, el('div', { class: 'bar' }, el('h1', {}, 'Schedules')), this.body);
  }

  async refresh() {
    const { schedules, now_ms: nowMs } = await get('/v1/schedules');
    clock.ahead = nowMs - Date.now();
    if (this.app.may('read')) await Promise.all(schedules.slice(0, OUTCOMES_MAX).map((schedule) => this.ask(schedule)));
    const outcomes = schedules.map((schedule) => this.outcomes.get(key(schedule)) ?? '');
    fill(this.body, JSON.stringify([schedules, outcomes]), () => (schedules.length ? this.table(schedules) : el('p', { class: 'empty' },
      'The manifest has no schedules.')));
    updateTimes(this.body);
  }

  /** Asks what became of the last job, until it has ended. */
  async ask(schedule) {
    const last = key(schedule);
    if (!schedule.last_run_ms || ENDED.includes(this.outcomes.get(last))) return;
    try {
      const job = await get(topicPath(schedule.topic, 'jobs', last));
      this.outcomes.set(last, job.state);
    } catch (error) {
      if (!(error instanceof Refused) || error.kind !== 'unknown-job') throw error;
      this.outcomes.set(last, 'gone');
    }
  }

  table(schedules) {
    const heads = ['Schedule', 'Topic', 'When', 'Next', 'Last', 'Outcome', ''];
    return el('table', { class: 'plain cards' }, el('thead', {}, el('tr', {}, heads.map((head) => el('th', { scope: 'col' }, head)))),
      el('tbody', {}, schedules.map((schedule) => this.row(schedule))));
  }

  row(schedule) {
    const cell = (label, ...children) => el('td', { 'data-label': label }, ...children);
    const rule = schedule.cron ? el('code', {}, `${schedule.cron}${schedule.tz ? ` ${schedule.tz}` : ''}`) : `every ${span(schedule.every_ms)}`;
    return el('tr', { 'data-schedule': schedule.name },
      el('th', { scope: 'row' }, schedule.name, schedule.fault && el('span', { class: 'badge bad', title: schedule.fault }, 'keys refused')),
      cell('Topic', el('a', { href: `#/topics/${encodeURIComponent(schedule.topic)}` }, schedule.topic), schedule.paused && el('span', { class: 'badge warn' }, 'paused')),
      cell('When', rule), cell('Next', schedule.next_run_ms ? when(schedule.next_run_ms) : '–'),
      cell('Last', schedule.last_run_ms ? when(schedule.last_run_ms) : 'never'), cell('Outcome', this.outcome(schedule)),
      el('td', { class: 'end' }, this.app.may('admin') && button('Run now', () => this.run(schedule), { class: 'small', 'aria-label': `Run now: ${schedule.name}` })));
  }

  outcome(schedule) {
    const state = this.outcomes.get(key(schedule));
    if (!schedule.last_run_ms || !state) return '–';
    if (state === 'gone') {
      return el('span', { class: 'faint', title: 'Its job was done and not kept, cancelled, purged, or discarded after a failure: set done_retention to keep done jobs' }, 'no record');
    }
    return el('a', { href: jobLink(schedule.topic, key(schedule)) }, el('span', { class: `chip s-${state}` }, wordOf(state)));
  }

  async run(schedule) {
    try {
      const pushed = await post(`/v1/schedules/${encodeURIComponent(schedule.name)}/run`);
      actions.say(`${pushed.id} is pushed.`);
      await this.app.refresh();
    } catch (error) {
      actions.sayRefused(error);
    }
  }

  close() {}
}

/** The id of a schedule's last job. */
const key = (schedule) => `${schedule.name}@${schedule.last_run_ms}`;
