// Times the works of compute.mjs in Node: a line `NAME<tab>MILLISECONDS` for each, the median of five batches of
// processor time, after one to warm up.

import handle, { works } from "./compute.mjs";

const BATCH_MS = Number(process.argv[2] ?? 200);

async function batch(work) {
  const began = process.cpuUsage();
  const used = () => { const { user, system } = process.cpuUsage(began); return (user + system) / 1000; };
  let times = 0;
  while (used() < BATCH_MS) {
    await handle({ work, times: 1 });
    times++;
  }
  return used() / times;
}

for (const work of Object.keys(works)) {
  await batch(work);
  const figures = [];
  for (let at = 0; at < 5; at++) figures.push(await batch(work));
  console.log(`${work}\t${figures.sort((a, b) => a - b)[2]}`);
}
