// Requests of the page to the API. Each request has the header that only the page can send. An error carries the
// daemon's own text.

const WITHIN_MS = 15_000;

/** An error response, or no response (`status` 0: the daemon was not reached). */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? 'the daemon gave no reason');
    this.status = status;
    this.remedy = problem.remedy ?? '';
    this.kind = (problem.type ?? '').replace('/problems/', '');
  }
}

/** Sends a request and returns the JSON of the response. */
export async function ask(method, path, json) {
  const headers = { 'X-Duebox-Page': '1', Accept: 'application/json' };
  if (json !== undefined) headers['Content-Type'] = 'application/json';
  const body = json === undefined ? undefined : JSON.stringify(json);
  let response;
  let text;
  try {
    const signal = AbortSignal.timeout(WITHIN_MS);
    response = await fetch(path, { method, headers, body, signal, cache: 'no-store', credentials: 'same-origin' });
    text = await response.text();
  } catch {
    throw new Refused(0, { detail: 'The daemon cannot be reached.' });
  }
  let value = {};
  try {
    if (text) value = JSON.parse(text);
  } catch {
    throw new Refused(response.status, { detail: `The response (${response.status}) is not JSON.` });
  }
  if (!response.ok) throw new Refused(response.status, value);
  return value;
}

export const get = (path) => ask('GET', path);
export const post = (path, json) => ask('POST', path, json);
export const remove = (path) => ask('DELETE', path);

/** The path of a topic, or of a resource below it. */
export function topicPath(topic, ...rest) {
  return ['/v1/topics', ...[topic, ...rest].map(encodeURIComponent)].join('/');
}
