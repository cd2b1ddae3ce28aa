// Draws the panels of a dashboard with Grafana's components in Chromium, one picture for each group of rows.
//
//   node draw.mjs DATA DIRECTORY    DATA is what query.mjs prints
//
// Fails on an error in the page, or if a row is in no picture.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import puppeteer from "puppeteer-core";
import upng from "upng-js";

const pictures = {
  jobs: ["At a glance", "Jobs"],
  handlers: ["Handlers"],
  runners: ["Runners and Redis"],
};
const width = 1480;
const [file, directory] = process.argv.slice(2);
const here = (path) => new URL(path, import.meta.url).pathname;
const { panels, ...range } = JSON.parse(readFileSync(file, "utf8"));

const bundled = await build({
  entryPoints: [here("src/page.jsx")],
  bundle: true,
  write: false,
  outdir: ".",
  format: "iife",
  logLevel: "silent",
  loader: { ".ttf": "empty" },
  alias: { "react-custom-scrollbars-2": here("src/scrollbars.js") },
  define: { "process.env.NODE_ENV": '"production"', global: "window" },
});
const output = (name) => bundled.outputFiles.find(({ path }) => path.endsWith(name)).text;
const html = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><link rel="stylesheet" href="/page.css">
  <style>body { margin: 0; } ::-webkit-scrollbar { display: none; }</style>
  <div id="page"></div><script src="/page.js"></script>`;

const files = {
  "/": () => ["text/html", html],
  "/page.js": () => ["text/javascript", output("page.js")],
  "/page.css": () => ["text/css", output("page.css")],
  "/public/fonts/inter/Inter-Regular.woff2": () => font(400),
  "/public/fonts/inter/Inter-Medium.woff2": () => font(500),
};
const modules = (path) => readFileSync(here(`node_modules/${path}`));
const font = (weight) => ["font/woff2", modules(`@fontsource/inter/files/inter-latin-${weight}-normal.woff2`)];

/** Answers the requests of the page: for its files, and for the icons of @grafana/ui. No other address is asked. */
function answer(request) {
  const { protocol, pathname } = new URL(request.url());
  if (protocol === "data:") return request.continue();
  if (pathname.startsWith("/public/img/icons/")) {
    return request.respond({ contentType: "image/svg+xml", body: modules(`@grafana/ui/dist${pathname}`) });
  }
  if (!(pathname in files)) throw new Error(`the page asks for ${request.url()}`);
  const [contentType, body] = files[pathname]();
  return request.respond({ contentType, body });
}

/** The picture with 256 colours: a third of the bytes, and no difference to be seen. */
function packed(png) {
  const image = upng.decode(png);
  return Buffer.from(upng.encode(upng.toRGBA8(image), image.width, image.height, 256));
}

/** The panels by the row that they are in. */
const rows = new Map();
for (const panel of panels) {
  if (panel.type === "row") rows.set(panel.title, []);
  [...rows.values()].at(-1).push(panel);
}
const missing = [...rows.keys()].filter((row) => !Object.values(pictures).flat().includes(row));
if (missing.length > 0) throw new Error(`in no picture: ${missing}`);

const profile = mkdtempSync(join(tmpdir(), "duebox-chromium-"));
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"],
  userDataDir: profile,
  protocolTimeout: 60_000,
});
try {
  for (const [name, titles] of Object.entries(pictures)) {
    const page = await browser.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error));
    page.on("console", (line) => line.type() === "error" && errors.push(new Error(line.text())));
    await page.setViewport({ width, height: 900 });
    await page.setRequestInterception(true);
    page.on("request", (request) => {
      try {
        answer(request);
      } catch (error) {
        errors.push(error);
        request.abort();
      }
    });
    await page.goto("http://picture.invalid/");
    const given = { range, panels: titles.flatMap((title) => rows.get(title)) };
    const height = await page.evaluate((given) => window.draw(given), given);
    await page.setViewport({ width, height });
    await page.waitForNetworkIdle({ idleTime: 1000, timeout: 30_000 });
    if (errors.length > 0) throw new AggregateError(errors, `the page of ${name} has errors`);
    writeFileSync(join(directory, `dashboard-${name}.png`), packed(await page.screenshot()));
    await page.close();
  }
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}
