// A Duebox client in Node without dependencies.

const DUEBOX = process.env.DUEBOX ?? "http://127.0.0.1:7280";
const TOKEN = process.env.DUEBOX_TOKEN;

/** Posts JSON; returns the status and the decoded response, also of an error. */
async function post(path, value) {
  const headers = { "content-type": "application/json" };
  if (TOKEN) headers.authorization = `Bearer ${TOKEN}`;
  const body = value === undefined ? undefined : JSON.stringify(value);
  const signal = AbortSignal.timeout(70_000);
  const response = await fetch(DUEBOX + path, { method: "POST", headers, body, signal });
  const text = await response.text();
  return [response.status, text ? JSON.parse(text) : null];
}

// Push, pull and settle.
const [stored, pushed] = await post("/v1/topics/mail/jobs", { id: "node", payload: { to: "ann" } });
console.log(stored, pushed.result);
const [, pulled] = await post("/v1/topics/mail/leases?wait=10s");
const [job] = pulled.jobs;
console.log(job.id, job.payload);
const [acked] = await post(`/v1/topics/mail/jobs/${job.id}/ack`, { token: job.token });
console.log(acked);
const [late, problem] = await post(`/v1/topics/mail/jobs/${job.id}/ack`, { token: job.token });
console.log(late, problem.type);

// The same with commands.
const order = { command: "add", topic: "order", id: "node", TTR: 30, body: { order: 42 } };
const [, added] = await post("/", order);
console.log(added.success);
const [, popped] = await post("/", { command: "pop", topic: "order", wait: 10 });
console.log(popped.id, JSON.stringify(popped.value));
const [, finished] = await post("/", { command: "finish", id: popped.id, token: popped.token });
console.log(finished.success);
const [, deleted] = await post("/", { command: "delete", id: popped.id });
console.log(deleted.success, deleted.error);
