// What people do to a topic and its jobs. Whatever takes something away, or holds something back, says first
// what will happen and to how many, and asks.

import { Refused, post, remove, topicPath } from './api.js';
import { button, count, el, many } from './dom.js';

let toasts = 0;

/** Says what came of an action, for a while; what failed stays until it is put away. */
export function say(text, kind = 'good', more = '') {
  const place = document.getElementById('toasts');
  const toast = el('div', { class: `toast ${kind}` }, el('p', {}, text), more && el('p', { class: 'more' }, more));
  toast.append(button('Close', () => toast.remove(), { class: 'quiet', 'aria-label': 'Close this message' }));
  toast.dataset.number = String((toasts += 1));
  place.append(toast);
  while (place.children.length > 4) place.firstChild.remove();
  if (kind === 'good') setTimeout(() => toast.remove(), 6_000);
}

export function sayRefused(error) {
  if (!(error instanceof Refused)) throw error;
  say(error.message, 'bad', error.remedy);
}

/** Opens a dialog that goes when it is closed. */
export function open(dialog) {
  document.body.append(dialog);
  dialog.addEventListener('close', () => dialog.remove());
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.showModal();
  return dialog;
}

/** Asks before something is done. `typed` is a text that must be typed first. */
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
    typed && el('label', {}, el('span', {}, 'Type ', el('code', {}, typed), ' to go on'), input),
    el('div', { class: 'buttons' }, button('Cancel', () => dialog.close(), { class: 'quiet', id: 'no' }), go));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    go.disabled = true;
    try {
      say(await act());
    } catch (error) {
      sayRefused(error);
    }
    dialog.close();
  });
  dialog.append(form);
  open(dialog);
  (input || form.querySelector('#no')).focus();
}

/** Does something at once, and says what came of it. */
async function doNow(act) {
  try {
    say(await act());
  } catch (error) {
    sayRefused(error);
  }
}

export function pause(topic, state, done) {
  confirm({
    title: `Pause ${topic}?`,
    text: [
      'No daemon starts a job of it, and no consumer gets one, until it is resumed. What runs now runs on.',
      `${many(state.ready + state.blocked, 'job')} ${state.ready + state.blocked === 1 ? 'is' : 'are'} due now, ${count(state.unack)} running.`,
    ],
    yes: 'Pause',
    act: async () => {
      await post(topicPath(topic, 'pause'));
      await done();
      return `${topic} is paused.`;
    },
  });
}

export const resume = (topic, done) => doNow(async () => {
  await post(topicPath(topic, 'resume'));
  await done();
  return `${topic} runs again.`;
});

export const reload = (topic, done) => doNow(async () => {
  const { runners } = await post(topicPath(topic, 'reload'));
  await done();
  return `${many(runners.length, 'daemon')} look at the module’s file now.`;
});

export function rollback(topic, from, to, done) {
  confirm({
    title: `Roll back ${topic}?`,
    text: [
      'The module before serves again, in every daemon. Jobs that run now finish on the one they began with.',
      `${from.slice(0, 12) || 'The module of now'} makes way for ${to.slice(0, 12)}, and is not taken again until its file changes.`,
    ],
    yes: 'Roll back',
    act: async () => {
      await post(topicPath(topic, 'rollback'));
      await done();
      return `${topic} is served by the module before.`;
    },
  });
}

const chosen = (className) => (className ? `?class=${encodeURIComponent(className)}` : '?all=true');
const ofClass = (className) => (className ? ` of class ${className}` : '');

export function requeueAll(topic, className, dead, done) {
  const how = className ? `The dead jobs of class ${className}` : many(dead, 'dead job');
  confirm({
    title: `Requeue dead jobs of ${topic}?`,
    text: `${how} will run again at once, with all their attempts. A job whose id is alive again stays dead.`,
    yes: className ? 'Requeue these' : `Requeue ${count(dead)}`,
    act: async () => {
      const { requeued, exists } = await post(`${topicPath(topic, 'requeue')}${chosen(className)}`);
      await done();
      return `${many(requeued, 'job')}${ofClass(className)} requeued${exists ? `; ${count(exists)} stay dead` : ''}.`;
    },
  });
}

export function purge(topic, className, dead, done) {
  const how = className ? `The dead jobs of class ${className}` : many(dead, 'dead job');
  confirm({
    title: `Purge dead jobs of ${topic}?`,
    text: `${how} will be forgotten, with their payloads and their evidence. Nothing brings them back.`,
    yes: className ? 'Purge these' : `Purge ${count(dead)}`,
    typed: topic,
    act: async () => {
      const { purged } = await remove(`${topicPath(topic, 'dead')}${chosen(className)}`);
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

export function forget(topic, id, done) {
  confirm({
    title: `Forget ${id}?`,
    text: `The dead job ${id} of ${topic} goes, with its payload and its evidence. Nothing brings it back.`,
    yes: 'Forget it',
    act: async () => {
      await remove(topicPath(topic, 'dead', id));
      await done();
      return `${id} is forgotten.`;
    },
  });
}

export function drop(topic, id, done) {
  confirm({
    title: `Drop ${id}?`,
    text: `The job ${id} of ${topic} is taken back before it runs, and forgotten. If it runs just now it runs to its end, and is not tried again.`,
    yes: 'Drop it',
    act: async () => {
      await remove(topicPath(topic, 'jobs', id));
      await done();
      return `${id} is dropped.`;
    },
  });
}

export const runNow = (topic, id, done) => doNow(async () => {
  await post(topicPath(topic, 'jobs', id, 'run-now'));
  await done();
  return `${id} runs as soon as a runner is free.`;
});

/** Asks for a job to push. */
export function pushOne(topic, done) {
  const payload = el('textarea', { id: 'payload', rows: 6, spellcheck: 'false', placeholder: '{"order": 42}' });
  const id = el('input', { id: 'job-id', placeholder: 'made for you', autocomplete: 'off', spellcheck: 'false' });
  const delay = el('input', { id: 'delay', placeholder: '0s', value: '0s', autocomplete: 'off', spellcheck: 'false' });
  const wrong = el('p', { class: 'wrong', role: 'alert' });
  const dialog = el('dialog', { class: 'ask wide', 'aria-labelledby': 'push-title' });
  const form = el('form', { method: 'dialog' },
    el('h2', { id: 'push-title' }, `Push a job to ${topic}`),
    el('p', {}, 'It is a job like any other: the handler will run it.'),
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
      const answer = await post(topicPath(topic, 'jobs'), job);
      await done();
      dialog.close();
      say(`${answer.id} is pushed.`);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      wrong.textContent = `${error.message}. ${error.remedy}`;
    }
  });
  dialog.append(form);
  open(dialog);
  payload.focus();
}
