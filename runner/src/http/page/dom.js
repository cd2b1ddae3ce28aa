// Making elements, and saying numbers and times. Text only ever becomes text: there is no markup in it.

/** An element with properties, `on` listeners and children; a child that is no node becomes text. */
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

/** Writes a text where it is another. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Puts these children into a node instead of its own, unless they would say the same. */
export function fill(node, key, make) {
  if (node.filledWith === key) return;
  node.filledWith = key;
  node.replaceChildren(...[make()].flat().filter(Boolean));
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

/** How long ago, or how soon, a time is. */
export function since(atMs, nowMs = Date.now()) {
  const away = nowMs - atMs;
  if (Math.abs(away) < 1_000) return 'now';
  return away > 0 ? `${span(away)} ago` : `in ${span(-away)}`;
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/** A time as people say it, with the exact one in its title. */
export function when(atMs, nowMs) {
  const exact = new Date(atMs);
  const isTime = !Number.isNaN(exact.getTime());
  return el('time', { datetime: isTime ? exact.toISOString() : '', title: isTime ? clock.format(exact) : '' }, since(atMs, nowMs));
}
