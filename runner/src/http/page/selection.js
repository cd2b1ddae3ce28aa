// Requeues, purges or cancels many jobs: asks first, shows the progress, and names each job that was left as it is.

import { Refused, get, post, topicPath } from './api.js';
import { open } from './actions.js';
import { button, count, el, setText } from './dom.js';
import { jobLink } from './job.js';

/** Jobs of one request. */
const IDS_PER_REQUEST = 100;
const LISTED_PER_REQUEST = 200;
/** Jobs that were left as they are, of which so many are named. */
const NAMED_MAX = 200;

const THEM = (number) => (number === 1 ? 'The job' : 'The jobs');

/** What can be done with many jobs. */
export const ACTIONS = {
  requeue: {
    word: 'Requeue', done: 'requeued', scope: 'admin', isCalm: true,
    text: (number) => `${THEM(number)} will run again at once, with all attempts. A job whose id is live again stays dead.`,
  },
  purge: {
    word: 'Purge', done: 'purged', scope: 'admin',
    text: (number) => `${THEM(number)} will be deleted, with payload and failure record. This cannot be undone.`,
  },
  cancel: {
    word: 'Cancel', done: 'cancelled', scope: 'push',
    text: (number) => `${THEM(number)} will be deleted before the next run. A running job runs to its end and is not retried. This cannot be undone.`,
  },
};

/** The actions on jobs of a state that the session may do. Done jobs go by themselves. */
export function actionsOf(app, state) {
  const names = { dead: ['requeue', 'purge'], done: [] }[state] ?? ['cancel'];
  return names.filter((name) => app.may(ACTIONS[name].scope));
}

/** Some jobs, as lists of ids for a request each. */
export async function* chosen(ids) {
  for (let at = 0; at < ids.length; at += IDS_PER_REQUEST) yield ids.slice(at, at + IDS_PER_REQUEST);
}

/** All jobs of a query, as such lists. At most `most` jobs are looked at: those that come meanwhile are left. */
export async function* matching(topic, query, most) {
  let [after, looked] = [null, 0];
  do {
    const wanted = new URLSearchParams({ ...query, limit: LISTED_PER_REQUEST, ...(after && { after }) });
    const page = await get(`${topicPath(topic, 'jobs')}?${wanted}`);
    yield* chosen(page.jobs.map((job) => job.id));
    after = page.next;
    looked += page.looked_at;
  } while (after && looked < most);
}

/** Asks for confirmation, then acts. `batches` makes the lists of ids; `number` is their sum, at most. A purge of all
    that match asks for the topic's name. */
export function confirmMany({ topic, action, what, number, isAll, batches, done }) {
  const { word, text, isCalm } = ACTIONS[action];
  const typed = action === 'purge' && isAll;
  const go = el('button', { type: 'submit', class: isCalm ? 'main' : 'danger', id: 'yes', disabled: typed }, `${word} ${isAll ? 'all that match' : count(number)}`);
  const input = typed && el('input', { id: 'typed', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', on: { input: () => { go.disabled = input.value !== topic; } } });
  const dialog = el('dialog', { class: 'ask wide', 'aria-labelledby': 'ask-title' });
  const form = el('form', { method: 'dialog' }, el('h2', { id: 'ask-title' }, `${word} ${what}?`), el('p', {}, text(number)),
    typed && el('label', {}, el('span', {}, 'Type ', el('code', {}, topic), ' to confirm'), input),
    el('div', { class: 'buttons' }, button('Back', () => dialog.close(), { class: 'quiet', id: 'no' }), go));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    new Work(dialog, { topic, action, what, number, done }).run(batches());
  });
  dialog.append(form);
  open(dialog);
  (input || form.querySelector('#no')).focus();
}

/** The work on many jobs, in its dialog. Closing the dialog stops it after the request under way. */
class Work {
  constructor(dialog, { topic, action, what, number, done }) {
    Object.assign(this, { dialog, topic, action, done, seen: 0, changed: 0, running: 0, left: [], isStopped: false });
    dialog.addEventListener('close', () => { this.isStopped = true; });
    this.bar = el('progress', { max: Math.max(1, number), value: 0, 'aria-label': 'Progress' });
    this.status = el('p', { role: 'status', id: 'work-status' });
    this.rest = el('div', { id: 'work-left' });
    this.stop = button('Stop', () => { this.isStopped = true; }, { class: 'quiet', id: 'work-stop' });
    this.buttons = el('div', { class: 'buttons' }, this.stop);
    dialog.replaceChildren(el('div', { class: 'work' }, el('h2', { id: 'ask-title' }, `${ACTIONS[action].word} ${what}`), this.bar, this.status, this.rest, this.buttons));
    this.stop.focus();
  }

  async run(batches) {
    let failure = null;
    try {
      for await (const ids of batches) {
        if (this.isStopped) break;
        this.show('');
        await this.send(ids);
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      failure = error;
    }
    const end = failure ? `Stopped: ${failure.message}.` : this.isStopped ? 'Stopped.' : '';
    this.show(end);
    this.finish(Boolean(failure));
    await this.done();
  }

  async send(ids) {
    if (ids.length === 0) return;
    const answer = await post(topicPath(this.topic, 'selected', this.action), { ids });
    this.seen += ids.length;
    this.changed += answer.done;
    this.running += answer.running;
    this.left.push(...answer.left);
    this.show('');
  }

  show(end) {
    this.bar.value = this.seen;
    const parts = [`${count(this.changed)} ${ACTIONS[this.action].done}`, this.running && `${count(this.running)} of them run to their end`,
      this.left.length && `${count(this.left.length)} left as ${this.left.length === 1 ? 'it is' : 'they are'}`].filter(Boolean);
    setText(this.status, `${parts.join(', ')}. ${end}`.trim());
  }

  /** Names what was left, and offers to close. The number was an upper bound: the bar is full at the end. */
  finish(hasFailed) {
    if (!hasFailed && !this.isStopped) this.bar.value = this.bar.max;
    if (this.left.length) {
      const link = ({ id }) => el('a', { class: 'id', href: jobLink(this.topic, id), on: { click: () => this.dialog.close() } }, id);
      this.rest.append(el('h3', {}, 'Left as they are'), el('ul', { class: 'left', tabindex: '0', 'aria-label': 'Jobs that were left as they are' },
        this.left.slice(0, NAMED_MAX).map((job) => el('li', {}, link(job), `: ${job.reason}`)),
        this.left.length > NAMED_MAX && el('li', {}, `and ${count(this.left.length - NAMED_MAX)} more`)));
    }
    this.buttons.replaceChildren(button('Close', () => this.dialog.close(), { class: 'main', id: 'work-close' }));
    this.buttons.firstChild.focus();
  }
}
