// Asks Prometheus the queries of a dashboard, as Grafana's data source would, and prints panels and results as JSON.
//
//   node query.mjs DASHBOARD PROMETHEUS SECONDS
//
// Fails if a query uses what it does not know, is refused, or has no data.

import { readFileSync } from "node:fs";

const [file, prometheus, seconds] = process.argv.slice(2);
const dashboard = JSON.parse(readFileSync(file, "utf8"));
// Grafana asks for one point per pixel at most, and never more often than Prometheus scrapes: every 4 s here.
const step = 4;
const to = Math.floor(Date.now() / 1000 / step) * step;
const from = to - Number(seconds);
const known = ["refId", "expr", "legendFormat", "datasource", "instant", "format"];

async function ask(path, parameters) {
  const response = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`, {
    signal: AbortSignal.timeout(20_000),
  });
  const answer = await response.json();
  if (answer.status !== "success" || answer.warnings) throw new Error(JSON.stringify(answer));
  return answer.data;
}

/** All variables must be replaced; `$topic` stands at All. */
function interpolated(expr) {
  const topic = dashboard.templating.list.find((variable) => variable.name === "topic");
  const values = { topic: topic.allValue, __rate_interval: `${4 * step}s` };
  return expr.replace(/\$\{?(\w+)\}?/g, (text, name) => {
    if (!(name in values)) throw new Error(`the variable ${text} is not supported`);
    return values[name];
  });
}

async function result(target) {
  const unknown = Object.keys(target).filter((key) => !known.includes(key));
  if (unknown.length > 0) throw new Error(`the keys ${unknown} of a query are not supported`);
  if (Boolean(target.instant) !== (target.format === "table")) throw new Error("only tables may be instant");
  const query = interpolated(target.expr);
  const { result } = target.instant
    ? await ask("query", { query, time: to })
    : await ask("query_range", { query, start: from, end: to, step });
  const values = result.flatMap(({ value, values }) => values ?? [value]);
  if (!values.some(([, value]) => Number.isFinite(Number(value)))) throw new Error("no data");
  return { refId: target.refId, legendFormat: target.legendFormat, format: target.format, series: result };
}

const failures = [];
for (const panel of dashboard.panels) {
  if (panel.panels?.length > 0) failures.push(`${panel.title}: panels in a collapsed row are not supported`);
  panel.results = [];
  for (const target of panel.targets ?? []) {
    try {
      panel.results.push(await result(target));
    } catch (error) {
      failures.push(`${panel.title}, query ${target.refId}: ${error.message}: ${target.expr}`);
    }
  }
}
if (failures.length > 0) {
  console.error(`query.mjs: ${failures.length} queries failed:\n${failures.join("\n")}`);
  process.exit(1);
}
const alerts = await ask("query_range", { query: "max by (alertname, alertstate) (ALERTS)", start: from, end: to, step });
for (const { metric } of alerts.result) console.error(`${metric.alertname} was ${metric.alertstate}`);
console.log(JSON.stringify({ panels: dashboard.panels, from, to, step }));
