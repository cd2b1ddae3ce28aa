// Turns results of Prometheus into data frames, as Grafana's data source for Prometheus does.

import { FieldType } from "@grafana/data";

const legend = (format, labels) => format.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, name) => labels[name] ?? "");

/** The time series panel draws NaN and infinities as missing. */
const finite = (text) => (Number.isFinite(Number(text)) ? Number(text) : null);

const time = (values, interval) => ({
  name: "Time",
  type: FieldType.time,
  config: { interval },
  values: values.map((at) => at * 1000),
});

/** One frame for each series of a range query. Steps without a value are null, so that a line may end there. */
function series({ refId, legendFormat, series }, { from, to, step }) {
  const steps = Array.from({ length: (to - from) / step + 1 }, (_, index) => from + index * step);
  return series.map(({ metric, values }) => {
    const at = new Map(values);
    return {
      refId,
      length: steps.length,
      fields: [
        time(steps, step * 1000),
        {
          name: "Value",
          type: FieldType.number,
          labels: metric,
          config: legendFormat ? { displayNameFromDS: legend(legendFormat, metric) } : {},
          values: steps.map((step) => (at.has(step) ? finite(at.get(step)) : null)),
        },
      ],
    };
  });
}

/** One frame for all series of an instant query: a column for each label. */
function table({ refId, series }) {
  const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const column = (name) => ({
    name,
    type: FieldType.string,
    config: { filterable: true },
    values: series.map(({ metric }) => metric[name] ?? ""),
  });
  const value = {
    name: "Value",
    type: FieldType.number,
    config: {},
    values: series.map(({ value }) => finite(value[1])),
  };
  const fields = [time(series.map(({ value }) => value[0])), ...labels.map(column), value];
  return [{ refId, length: series.length, fields }];
}

export const frames = (results, range) =>
  results.flatMap((result) => (result.format === "table" ? table(result) : series(result, range)));
