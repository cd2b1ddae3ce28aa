// The peer BullMQ: https://bullmq.io
//
// Default settings, and tuned: 100 jobs at once, completed jobs removed.
//
// Arguments and replies follow the protocol of all peers (see ../README.md).
import { createInterface } from "node:readline";
import { Queue, Worker } from "bullmq";
import { Pool } from "undici";

const PAYLOAD_LEN = 200;
const LEAD_MS = 3000;
const IN_FLIGHT = 32;
const BATCH = 1000;
const STALL_MAX_MS = 35000;

const [name, settings, address, jobsText, spreadText] = process.argv.slice(2);
const [host, port] = address.split(":");
const connection = { host, port: Number(port) };
const tuned = settings === "tuned";
const jobs = Number(jobsText);
const spreadMs = Number(spreadText);
const postsTo = process.env.PEER_POSTS_TO === undefined ? undefined : new URL(process.env.PEER_POSTS_TO);
const concurrency = postsTo === undefined ? 100 : Number(process.env.PEER_CONCURRENCY);
const receiver = postsTo && new Pool(postsTo.origin, { connections: concurrency });
const options = tuned ? { removeOnComplete: true } : {};

const handledTimes = new Uint8Array(jobs);
const lateUs = new Float64Array(jobs);
let handled = 0;
let twice = 0;
let last = 0;
let warm;
const warmed = new Promise((resolve) => { warm = resolve; });

const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);
const reply = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A line on stdin starts the task; the end of stdin ends the program.
let go;
const input = createInterface({ input: process.stdin });
input.on("line", () => go?.());
input.on("close", () => process.exit(0));
function ready() {
  const word = new Promise((resolve) => { go = resolve; });
  reply({ ready: true });
  return word;
}

const queue = new Queue("bench", { connection, defaultJobOptions: options });

function data(number, dueMs) {
  const bare = JSON.stringify({ n: number, due_us: dueMs * 1000, pad: "" }).length;
  return { n: number, due_us: dueMs * 1000, pad: "x".repeat(PAYLOAD_LEN - bare) };
}

const push = (number, dueMs, more) => queue.add("bench", data(number, dueMs), more);
const pushNow = (number) => push(number, Date.now());

async function spread(pushOne) {
  let next = 0;
  const one = async () => {
    for (let number = next++; number < jobs; number = next++) await pushOne(number);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, one));
}

async function pushBatches() {
  for (let from = 0; from < jobs; from += BATCH) {
    const batch = [];
    for (let number = from; number < Math.min(from + BATCH, jobs); number++) {
      batch.push({ name: "bench", data: data(number, Date.now()) });
    }
    await queue.addBulk(batch);
  }
}

async function timed(work) {
  await ready();
  const from = performance.now();
  await work();
  reply({ seconds: (performance.now() - from) / 1000 });
}

/** Sends the job to the receiver, which must accept it. */
async function post(payload) {
  const headers = { "content-type": "application/json" };
  const { statusCode, body } = await receiver.request({ path: postsTo.pathname, method: "POST", headers, body: payload });
  await body.dump();
  if (statusCode !== 200) throw new Error(`the receiver answered ${statusCode}`);
}

async function handle(job) {
  if (receiver) await post(JSON.stringify(job.data));
  const now = nowUs();
  const number = job.data.n;
  if (number < 0) return warm();
  if (handledTimes[number]++ > 0) {
    twice++;
    return;
  }
  lateUs[number] = now - job.data.due_us;
  last = now;
  handled++;
}

function serve() {
  const worker = new Worker("bench", handle, tuned ? { connection, concurrency } : { connection });
  worker.on("error", (error) => process.stderr.write(`${error}\n`));
}

async function finish(fromUs, withLateness) {
  let seen = -1;
  let moved = performance.now();
  for (;;) {
    if (handled !== seen) {
      seen = handled;
      moved = performance.now();
    }
    if (handled === jobs || performance.now() - moved > STALL_MAX_MS) break;
    await sleep(2);
  }
  const found = { handled, twice, seconds: (last - fromUs) / 1e6 };
  if (withLateness) found.late_us = [...lateUs].filter((_, number) => handledTimes[number] > 0);
  reply(found);
}

switch (name) {
  case "push-one":
    await timed(async () => {
      for (let number = 0; number < jobs; number++) await pushNow(number);
    });
    break;
  case "push-flight":
    await timed(() => spread(pushNow));
    break;
  case "push-batch":
    await timed(pushBatches);
    break;
  case "drain": {
    await pushBatches();
    await ready();
    const from = nowUs();
    serve();
    await finish(from, false);
    break;
  }
  case "due": {
    serve();
    await pushNow(-1);
    await warmed;
    await ready();
    const begin = Date.now() + LEAD_MS;
    await spread((number) => {
      const due = begin + Math.floor((number * spreadMs) / jobs);
      return push(number, due, { delay: due - Date.now() });
    });
    if (Date.now() > begin) {
      reply({ unsupported: "the pushes did not finish before the first job fell due" });
      process.exit(0);
    }
    await finish(begin * 1000, true);
    break;
  }
  case "idle":
    serve();
    await pushNow(-1);
    await warmed;
    await ready();
    break;
  default:
    reply({ unsupported: "unknown task" });
    process.exit(0);
}
