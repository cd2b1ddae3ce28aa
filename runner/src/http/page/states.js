// The states of jobs with their words, the badges of topics, and what counts as trouble.

import { el } from './dom.js';

/** The job states and their words, the same everywhere on the page. */
export const STATES = [
  ['pending', 'Pending'],
  ['ready', 'Ready'],
  ['blocked', 'Blocked'],
  ['unack', 'Running'],
  ['retry', 'Retry'],
  ['dead', 'Dead'],
  ['done', 'Done'],
];

const WORDS = { ...Object.fromEntries(STATES.map(([name, word]) => [name, word.toLowerCase()])), held: 'done' };

/** The word of a state. */
export const wordOf = (state) => WORDS[state] ?? state;

/** A state as a chip. */
export const chip = (state) => el('span', { class: `chip s-${state}` }, wordOf(state));

/** Jobs that have been due for so long are trouble. */
const OVERDUE_MS = 60_000;

const isServed = (state) => state.pulled || state.runners > 0;

/** True if an operator should look at the topic. */
export function hasTrouble(state) {
  return Boolean(state.fault) || state.breakers_open > 0 || (state.bound && !isServed(state)) || state.dead > 0 || state.retry > 0
    || state.recent.failed > 0 || state.recent.died > 0 || (state.late_ms ?? 0) > OVERDUE_MS;
}

/** True if the topic has no jobs and had none in the last ten minutes, and nothing is wrong with it. */
export function isIdle(state) {
  const jobs = state.pending + state.ready + state.blocked + state.unack + state.retry + state.dead;
  return jobs === 0 && state.recent.attempts === 0 && !state.paused && !hasTrouble(state);
}

/** Badges for what holds a topic's jobs back, and for what runs them. */
export function badges(state) {
  const mark = (kind, text, title) => el('span', { class: `badge ${kind}`, title }, text);
  return [
    state.fault && mark('bad', 'keys refused', `${state.fault}; run: duebox doctor ${state.topic}`),
    state.paused && mark('warn', 'paused', 'No daemon starts its jobs'),
    state.breakers_open > 0 && mark('bad', 'breaker open', 'Its jobs are held back after repeated failures'),
    state.pulled && mark('calm', 'pulled', 'It has no handler here: consumers lease its jobs'),
    !state.bound && mark('calm', 'unbound', 'It is not in this daemon’s manifest'),
    state.bound && !isServed(state) && mark('bad', 'no runner', 'No daemon serves it: its handler was refused or is still compiling'),
  ].filter(Boolean);
}
