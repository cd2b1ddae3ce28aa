// What `./dev bench languages` computes, in the engine as a handler and in Node. Each work has the value that it must
// return; bench/languages/compute.py does the same.

let state = 1;
const draw = () => (state = (state * 16807) % 2147483647);

const people = Array.from({ length: 1250 }, (_, id) => ({ id, name: `Zoë ${draw()}`, price: draw() / 64, tags: ["a", "b"], on: id % 2 === 0 }));
const json = JSON.stringify(people);
const letter = Array.from({ length: 4000 }, () => `word ${draw()} ada${draw() % 100}@mail.com`).join(" ").slice(0, 100_000);
const numbers = Array.from({ length: 20_000 }, draw);
const megabyte = new Uint8Array(1_000_000).map((_, at) => at % 251);

const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));

function loop() {
  let sum = 0;
  for (let at = 0; at < 300_000; at++) sum = (sum + at * at) % 1_000_003;
  return sum;
}

function strings() {
  let text = "";
  for (let at = 0; at < 20_000; at++) text += `${at},`;
  return text.length;
}

const sorted = () => [...numbers].sort((a, b) => a - b)[10_000];
const digest = async () => new Uint8Array(await crypto.subtle.digest("SHA-256", megabyte))[0];

export const works = {
  "fib(24), recursive": [() => fib(24), 46368],
  "loop of 300,000 sums": [loop, 266000],
  "JSON of 100 kB, parsed": [() => JSON.parse(json).length, 1250],
  "JSON of 100 kB, written": [() => JSON.stringify(people).length, json.length],
  "regular expression over 100 kB": [() => letter.match(/(\w+)@(\w+)\.com/g).length, 3290],
  "20,000 numbers, sorted": [sorted, 1070616409],
  "string of 20,000 parts": [strings, 108890],
  "SHA-256 of 1 MB": [digest, 44],
};

/** Does a work several times. */
export default async function handle({ work, times }) {
  const [run, wanted] = works[work];
  for (let time = 0; time < times; time++) {
    const found = await run();
    if (found !== wanted) throw new Error(`${work}: ${found} and not ${wanted}`);
  }
}
