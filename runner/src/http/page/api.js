// What the page asks of the daemon. Every request carries the header that only the page can send, and every
// refusal is told in the daemon's own words.

const WITHIN_MS = 15_000;

/** An answer that is no success, or none at all (`status` 0: the daemon was not reached). */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? 'the daemon did not say why');
    this.status = status;
    this.remedy = problem.remedy ?? '';
    this.kind = (problem.type ?? '').replace('/problems/', '');
  }
}

/** Sends a request and answers the JSON it came to. */
export async function ask(method, path, json) {
  const headers = { 'X-Duebox-Page': '1', Accept: 'application/json' };
  if (json !== undefined) headers['Content-Type'] = 'application/json';
  const body = json === undefined ? undefined : JSON.stringify(json);
  let answer;
  let text;
  try {
    const signal = AbortSignal.timeout(WITHIN_MS);
    answer = await fetch(path, { method, headers, body, signal, cache: 'no-store', credentials: 'same-origin' });
    text = await answer.text();
  } catch {
    throw new Refused(0, { detail: 'The daemon cannot be reached.' });
  }
  let value = {};
  try {
    if (text) value = JSON.parse(text);
  } catch {
    throw new Refused(answer.status, { detail: `The answer (${answer.status}) is no JSON.` });
  }
  if (!answer.ok) throw new Refused(answer.status, value);
  return value;
}

export const get = (path) => ask('GET', path);
export const post = (path, json) => ask('POST', path, json);
export const remove = (path) => ask('DELETE', path);

/** The path of a topic, and of what is in it. */
export function topicPath(topic, ...rest) {
  return ['/v1/topics', ...[topic, ...rest].map(encodeURIComponent)].join('/');
}
