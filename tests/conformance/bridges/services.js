// Calls a service of the host with what the payload names, and returns what came back.
import { job, kv, push, result } from "duebox";

const tasks = {
  async exchange({ url, method, headers, body }) {
    const response = await fetch(url, { method, headers, body: body && Uint8Array.from(body) });
    const { status, retryAfter = null } = response;
    const content = [...await response.bytes()];
    return { status, retryAfter, verdict: response.verdict().kind, headers: [...response.headers], content };
  },
  store({ key, value }) {
    const written = kv.set(key, Uint8Array.from(value));
    const text = kv.get(key);
    return { written, value: [...kv.getBytes(key)], text, gone: kv.delete(key) && kv.getBytes(key) === undefined };
  },
  settings: ({ names }) => names.map((name) => job.config(name)),
  headers: () => job.headers,
  push: ({ topic, payload, options }) => push(topic, payload, options),
};

export default async function handle({ task, ...values }) {
  result((await tasks[task](values)) ?? null);
}
