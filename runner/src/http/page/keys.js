// Keyboard shortcuts and the theme.

import { open } from './actions.js';
import { button, el } from './dom.js';

const KEYS = [
  ['/', 'filter the topics'],
  ['j  k', 'next, previous'],
  ['Enter', 'open the selected item'],
  ['g', 'back to the topics'],
  ['f', 'the failures'],
  ['← →', 'in a chart: read single values'],
  ['p', 'push a job (in a topic)'],
  ['x', 'select a job (in a list)'],
  ['t', 'theme: light, dark or system'],
  ['Esc', 'close, or go back'],
  ['?', 'show the keys'],
];

export function showKeys() {
  if (document.querySelector('dialog[open]')) return;
  const dialog = el('dialog', { class: 'ask', id: 'keys', 'aria-labelledby': 'keys-title' },
    el('h2', { id: 'keys-title' }, 'Keys'),
    el('dl', { class: 'keylist' }, KEYS.map(([key, what]) => [
      el('dt', {}, key.split(/ +/).map((one) => el('kbd', {}, one))), el('dd', {}, what),
    ])));
  dialog.append(el('div', { class: 'buttons' }, button('Close', () => dialog.close(), { class: 'main' })));
  open(dialog);
}

const THEMES = ['system', 'light', 'dark'];

function storedTheme() {
  try {
    return THEMES.includes(localStorage.theme) ? localStorage.theme : 'system';
  } catch {
    return 'system';
  }
}

export function applyTheme(theme = storedTheme()) {
  document.documentElement.dataset.theme = theme;
  const label = { system: 'Theme: auto', light: 'Theme: light', dark: 'Theme: dark' }[theme];
  document.getElementById('theme').textContent = label;
}

export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(storedTheme()) + 1) % THEMES.length];
  try {
    localStorage.theme = next;
  } catch {
    // Without storage, the theme applies until the page is reloaded.
  }
  applyTheme(next);
}

/** Focuses the next or previous link of the view. */
function move(view, by) {
  const links = view?.links?.() ?? [];
  if (!links.length) return;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next].focus();
  links[next].scrollIntoView({ block: 'nearest' });
}

/** From a job or a list of jobs to their topic, from any other view to the topics. */
function goUp() {
  const parts = location.hash.split('/');
  location.hash = ['jobs', 'browse'].includes(parts[3]) ? parts.slice(0, 3).join('/') : '#/';
}

/** Handles the keyboard. `view` returns the current view. */
export function followKeys(view) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches('input:not([type=checkbox]), textarea, select');
    if (document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') {
      if (isTyping) event.target.blur();
      else goUp();
      return;
    }
    if (isTyping) return;
    const actions = {
      '/': () => (view()?.focusFilter ? view().focusFilter() : (location.hash = '#/')),
      '?': showKeys,
      j: () => move(view(), 1),
      k: () => move(view(), -1),
      g: () => (location.hash = '#/'),
      f: () => (location.hash = '#/failures'),
      t: nextTheme,
      p: () => view()?.push?.(),
      x: () => view()?.mark?.(),
    };
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
