// Pushes the jobs of the picture to a runner over HTTP: a few for each topic, once a second.
//
//   node load.mjs ADDRESS SECONDS
//
// The numbers follow slow waves, so that the graphs are not flat. Pushes that fail, as while Redis stands still,
// are given up.

const [address, seconds] = process.argv.slice(2);
const started = Date.now();
const failing = Number(seconds) - 50;

/** A whole number around `middle` that swings by `swing` within `period` seconds. */
const wave = (at, middle, swing, period) =>
  Math.max(0, Math.round(middle + swing * Math.sin((2 * Math.PI * at) / period) + (Math.random() - 0.5) * swing * 0.4));

/** The receiver of webhooks refuses one in twelve, and all of the last 50 s. */
const status = (at) => (at > failing || Math.random() < 1 / 12 ? "503" : "200");

const topics = {
  "mail.send": (at) => Array(wave(at, 22, 12, 90)).fill({ payload: "mail" }),
  "order.close": (at) => Array(wave(at, 9, 4, 60)).fill({ payload: "order" }),
  "webhook.deliver": (at) => Array.from({ length: wave(at, 7, 3, 110) }, () => ({ payload: status(at) })),
  "report.build": (at) => Array(wave(at, 2, 1.5, 75)).fill({ payload: "report" }),
  "import.rows": (at) => Array(wave(at, 5, 2, 50)).fill({ payload: "rows" }),
};

async function push(topic, jobs) {
  if (jobs.length === 0) return;
  const response = await fetch(`http://${address}/v1/topics/${topic}/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(jobs),
    signal: AbortSignal.timeout(3000),
  });
  await response.text();
  if (!response.ok) throw new Error(`${response.status}`);
}

let failed = 0;
const under = [];
for (let at = 0; at < seconds; at++) {
  for (const [topic, jobs] of Object.entries(topics)) {
    under.push(push(topic, jobs(at)).catch(() => failed++));
  }
  await new Promise((resolve) => setTimeout(resolve, started + (at + 1) * 1000 - Date.now()));
}
await Promise.all(under);
console.log(`load.mjs: ${failed} of ${under.length} pushes failed`);
// Most succeed: only those while Redis stands still may fail.
process.exit(failed > under.length / 10 ? 1 : 0);
