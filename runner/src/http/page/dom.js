// Makes elements, and formats numbers and times. Text always stays text and never becomes markup.

/** An element with properties, `on` listeners and children; a child that is not a node becomes text. */
export function el(name, props = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'on') {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (key === 'class') {
      node.className = value;
    } else {
      node.setAttribute(key, value === true ? '' : value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element of a drawing. */
export function draw(name, props = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** Sets a text if it differs. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replaces the children of a node, unless `key` is unchanged. The focus stays on the child of the same state. */
export function fill(node, key, make) {
  if (node.filledWith === key) return;
  node.filledWith = key;
  const focused = node.contains(document.activeElement) && document.activeElement.dataset.state;
  node.replaceChildren(...[make()].flat().filter(Boolean));
  if (focused) node.querySelector(`[data-state="${focused}"]`)?.focus();
}

export function button(label, listener, props = {}) {
  return el('button', { type: 'button', on: { click: listener }, ...props }, label);
}

const whole = new Intl.NumberFormat('en-US');

/** 1,234 · 56.7k · 8.9M */
export function count(number) {
  if (number < 10_000) return whole.format(Math.round(number));
  const [size, unit] = number < 1e6 ? [1e3, 'k'] : number < 1e9 ? [1e6, 'M'] : [1e9, 'G'];
  const scaled = number / size;
  return `${scaled.toFixed(scaled < 100 ? 1 : 0)}${unit}`;
}

export function rate(perSecond) {
  if (perSecond === 0) return '0/s';
  if (perSecond < 0.1) return `${(perSecond * 60).toFixed(1)}/min`;
  return `${perSecond < 10 ? perSecond.toFixed(1) : count(perSecond)}/s`;
}

/** 12 ms · 1.4 s · 3m 20s · 2h 5m · 4d 3h */
export function span(ms) {
  if (ms < 1) return ms > 0 ? `${Math.max(1, Math.round(ms * 1000))} µs` : '0 s';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${Math.floor(seconds % 60)}s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours}h ${minutes % 60}m`;
  return `${Math.floor(hours / 24)}d ${hours % 24}h`;
}

export function bytes(number) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${at === 0 ? number : number.toFixed(1)} ${units[at]}`;
}

export const short = (digest) => digest.slice(0, 12);
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** How far Redis' clock is ahead of the browser's: times from the API are by Redis' clock. */
export const clock = { ahead: 0, now: () => Date.now() + clock.ahead };

/** The distance of a time from now. */
function since(atMs) {
  const away = clock.now() - atMs;
  if (Math.abs(away) < 1_000) return 'now';
  return away > 0 ? `${span(away)} ago` : `in ${span(-away)}`;
}

const exactly = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** A relative time, with the exact time as its title; `updateTimes` keeps it current. */
export function when(atMs) {
  const exact = new Date(atMs);
  const isTime = !Number.isNaN(exact.getTime());
  const node = el('time', { datetime: isTime ? exact.toISOString() : '', title: isTime ? exactly.format(exact) : '' }, since(atMs));
  node.atMs = atMs;
  return node;
}

/** Updates all relative times in a node. */
export function updateTimes(node) {
  for (const time of node.querySelectorAll('time')) setText(time, since(time.atMs));
}

/** The rows of a table. A row with an unchanged item keeps its node, and so the focus and a started click; `make`
    makes the row of a new item. */
export class Rows {
  constructor(heads, make, className = 'plain') {
    this.make = make;
    this.known = new Map();
    this.body = el('tbody');
    this.empty = el('p', { class: 'faint', hidden: true });
    this.table = el('table', { class: className, hidden: true },
      el('thead', {}, el('tr', {}, heads.map((title) => el('th', { scope: 'col' }, title)))), this.body);
    this.node = el('div', {}, this.table, this.empty);
  }

  show(items, emptyText) {
    const rows = new Map(items.map((item) => {
      const key = JSON.stringify(item);
      return [key, this.known.get(key) ?? this.make(item)];
    }));
    for (const [key, row] of this.known) if (!rows.has(key)) row.remove();
    let place = this.body.firstChild;
    for (const row of rows.values()) {
      if (row === place) place = place.nextSibling;
      else this.body.insertBefore(row, place);
    }
    this.known = rows;
    this.table.hidden = items.length === 0;
    this.empty.hidden = items.length > 0;
    setText(this.empty, emptyText);
    updateTimes(this.body);
  }
}
