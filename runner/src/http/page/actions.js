// Actions on topics and jobs. An action that deletes or holds back jobs first states its effect and asks for
// confirmation.

import { Refused, get, post, remove, topicPath } from './api.js';
import { button, clock, count, el, many } from './dom.js';

let toasts = 0;

/** How long the result of an action is shown, and that of one that can be undone. */
const SHOWN_MS = 6_000;
const UNDO_MS = 15_000;

/** Shows the result of an action for some seconds; an error stays until it is closed. `undo` takes the action back. */
export function say(text, kind = 'good', more = '', undo = null) {
  const place = document.getElementById('toasts');
  const toast = el('div', { class: `toast ${kind}` }, el('p', {}, text), more && el('p', { class: 'more' }, more));
  const buttons = el('span', { class: 'toast-buttons' });
  if (undo) {
    buttons.append(button('Undo', () => {
      toast.remove();
      doNow(undo);
    }, { class: 'undo' }));
  }
  buttons.append(button('Close', () => toast.remove(), { class: 'quiet', 'aria-label': 'Close this message' }));
  toast.append(buttons);
  toast.dataset.number = String((toasts += 1));
  place.append(toast);
  while (place.children.length > 4) place.firstChild.remove();
  if (kind === 'good') setTimeout(() => toast.remove(), undo ? UNDO_MS : SHOWN_MS);
}

export function sayRefused(error) {
  if (!(error instanceof Refused)) throw error;
  say(error.message, 'bad', error.remedy);
}

/** Opens a dialog and removes it when it is closed. */
export function open(dialog) {
  document.body.append(dialog);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.showModal();
  return dialog;
}

/** Asks for confirmation of an action. `typed` is a text that must be typed first. */
function confirm({ title, text, yes, typed, act, isCalm }) {
  const go = el('button', { type: 'submit', class: isCalm ? 'main' : 'danger', id: 'yes', disabled: Boolean(typed) }, yes);
  const input = typed && el('input', {
    id: 'typed', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off',
    on: { input: () => { go.disabled = input.value !== typed; } },
  });
  const dialog = el('dialog', { class: 'ask', 'aria-labelledby': 'ask-title' });
  const form = el('form', { method: 'dialog' },
    el('h2', { id: 'ask-title' }, title),
    [text].flat().map((part) => el('p', {}, part)),
    typed && el('label', {}, el('span', {}, 'Type ', el('code', {}, typed), ' to confirm'), input),
    el('div', { class: 'buttons' }, button('Back', () => dialog.close(), { class: 'quiet', id: 'no' }), go));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      sayDone(await act());
    } catch (error) {
      sayRefused(error);
    }
    dialog.close();
  });
  dialog.append(form);
  open(dialog);
  (input || form.querySelector('#no')).focus();
}

/** Runs an action without confirmation and shows its result. */
async function doNow(act) {
  try {
    sayDone(await act());
  } catch (error) {
    sayRefused(error);
  }
}

/** Shows the result of an action: a text, or a text and how to undo it. */
function sayDone(result) {
  const [text, undo] = [result].flat();
  // Only the last action can be undone: undoing an earlier one could contradict it.
  for (const earlier of document.querySelectorAll('.undo')) earlier.remove();
  say(text, 'good', '', undo);
}

/** Pauses or resumes a topic. */
async function setPaused(topic, isPaused, done) {
  await post(topicPath(topic, isPaused ? 'pause' : 'resume'));
  await done();
  return `${topic} is ${isPaused ? 'paused' : 'resumed'}.`;
}

export function pause(topic, state, done) {
  confirm({
    title: `Pause ${topic}?`,
    text: [
      'No daemon starts its jobs, and no consumer gets them, until it is resumed. Running jobs continue.',
      `${many(state.ready + state.blocked, 'job')} ${state.ready + state.blocked === 1 ? 'is' : 'are'} due now, ${count(state.unack)} running.`,
    ],
    yes: 'Pause',
    act: async () => [await setPaused(topic, true, done), () => setPaused(topic, false, done)],
  });
}

export const resume = (topic, done) => doNow(async () => [await setPaused(topic, false, done), () => setPaused(topic, true, done)]);

export const reload = (topic, done) => doNow(async () => {
  const { runners } = await post(topicPath(topic, 'reload'));
  await done();
  return `${many(runners.length, 'daemon')} checked the module file for changes.`;
});

export function rollback(topic, from, to, done) {
  confirm({
    title: `Roll back ${topic}?`,
    text: [
      'The previous module serves again, in every daemon. Running jobs finish on the module they started with.',
      `${to.slice(0, 12)} replaces ${from.slice(0, 12) || 'the current module'}, which is not used again until its file changes.`,
    ],
    yes: 'Roll back',
    act: async () => {
      await post(topicPath(topic, 'rollback'));
      await done();
      return `${topic} is served by the previous module.`;
    },
  });
}

const filter = (className) => (className ? `?class=${encodeURIComponent(className)}` : '?all=true');
const ofClass = (className) => (className ? ` of class ${className}` : '');

export function requeueAll(topic, className, dead, done) {
  const how = className ? `The dead jobs of class ${className}` : many(dead, 'dead job');
  confirm({
    title: `Requeue dead jobs of ${topic}?`,
    text: `${how} will run again at once, with all their attempts. A job whose id is live again stays dead.`,
    yes: className ? 'Requeue these' : `Requeue ${count(dead)}`,
    act: async () => {
      const { requeued, exists } = await post(`${topicPath(topic, 'requeue')}${filter(className)}`);
      await done();
      return `${many(requeued, 'job')}${ofClass(className)} requeued${exists ? `; ${count(exists)} stay dead` : ''}.`;
    },
  });
}

export function purge(topic, className, dead, done) {
  const how = className ? `The dead jobs of class ${className}` : many(dead, 'dead job');
  confirm({
    title: `Purge dead jobs of ${topic}?`,
    text: `${how} will be deleted, with their payloads and their failure records. This cannot be undone.`,
    yes: className ? 'Purge these' : `Purge ${count(dead)}`,
    typed: topic,
    act: async () => {
      const { purged } = await remove(`${topicPath(topic, 'dead')}${filter(className)}`);
      await done();
      return `${many(purged, 'dead job')}${ofClass(className)} purged.`;
    },
  });
}

export const requeue = (topic, id, done) => doNow(async () => {
  await post(topicPath(topic, 'dead', id, 'requeue'));
  await done();
  return `${id} is requeued.`;
});

export function purgeOne(topic, id, done) {
  confirm({
    title: `Purge ${id}?`,
    text: `The dead job ${id} of ${topic} will be deleted, with its payload and its failure record. This cannot be undone.`,
    yes: 'Purge it',
    act: async () => {
      await remove(topicPath(topic, 'dead', id));
      await done();
      return `${id} is purged.`;
    },
  });
}

export function cancel(topic, id, done) {
  confirm({
    title: `Cancel job ${id}?`,
    text: `Job ${id} of ${topic} will be deleted before it runs. If it is running, it runs to its end and is not retried.`,
    yes: 'Cancel the job',
    act: async () => {
      const job = await find(topic, id);
      const { result } = await remove(topicPath(topic, 'jobs', id));
      await done();
      if (result !== 'cancelled') return `${id} runs to its end and is not retried.`;
      return [`${id} is cancelled.`, canReturn(job) && (() => pushBack(topic, job, done))];
    },
  });
}

/** A job as it is, or null if the session may not read it. */
async function find(topic, id) {
  try {
    return await get(topicPath(topic, 'jobs', id));
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
}

/** True if a push makes the cancelled job what it was: one that has failed before would get all its attempts again. */
const canReturn = (job) => job && ['pending', 'ready', 'blocked'].includes(job.state) && !job.failures && !job.crashes && !job.snoozes && !job.options_error;

/** Pushes a cancelled job again, with its payload, options and due time. */
async function pushBack(topic, { id, due_at_ms: dueMs, payload, payload_base64: base64, options }, done) {
  const due = dueMs > clock.now() + 1_000 ? { at: String(dueMs) } : { in: '0s' };
  await post(`${topicPath(topic, 'jobs')}?if_exists=reject`, { id, ...due, ...(base64 === undefined ? { payload } : { payload_base64: base64 }), options });
  await done();
  return `${id} is pushed again.`;
}

export const runNow = (topic, id, done) => doNow(async () => {
  const job = await find(topic, id);
  await post(topicPath(topic, 'jobs', id, 'run-now'));
  await done();
  const text = `${id} runs as soon as a runner is free.`;
  return job?.due_at_ms > job?.now_ms + 1_000 ? [text, () => runLater(topic, id, job.due_at_ms, done)] : text;
});

/** Gives a job the due time that it had. A job that has started meanwhile is left as it is. */
async function runLater(topic, id, dueMs, done) {
  await post(topicPath(topic, 'jobs', id, 'reschedule'), { at: String(dueMs) });
  await done();
  return `${id} is due when it was.`;
}

/** Opens the form to push a job. */
export function pushOne(topic, done) {
  const payload = el('textarea', { id: 'payload', rows: 6, spellcheck: 'false', placeholder: '{"order": 42}' });
  const id = el('input', { id: 'job-id', placeholder: 'generated', autocomplete: 'off', spellcheck: 'false' });
  const delay = el('input', { id: 'delay', placeholder: '0s', value: '0s', autocomplete: 'off', spellcheck: 'false' });
  const wrong = el('p', { class: 'wrong', role: 'alert' });
  const dialog = el('dialog', { class: 'ask wide', 'aria-labelledby': 'push-title' });
  const form = el('form', { method: 'dialog' },
    el('h2', { id: 'push-title' }, `Push a job to ${topic}`),
    el('p', {}, 'The topic’s handler or consumers will run it like any other job.'),
    el('label', {}, 'Payload', payload),
    el('div', { class: 'pair' }, el('label', {}, 'Id', id), el('label', {}, 'Due in', delay)),
    wrong,
    el('div', { class: 'buttons' }, button('Cancel', () => dialog.close(), { class: 'quiet' }),
      el('button', { type: 'submit', class: 'main', id: 'yes' }, 'Push')));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const job = { payload: payload.value, in: delay.value.trim() || '0s' };
    if (id.value.trim()) job.id = id.value.trim();
    try {
      const pushed = await post(topicPath(topic, 'jobs'), job);
      await done();
      dialog.close();
      say(`${pushed.id} is pushed.`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      wrong.textContent = `${error.message}. ${error.remedy}`;
    }
  });
  dialog.append(form);
  open(dialog);
  payload.focus();
}
