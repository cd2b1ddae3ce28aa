// Completes the options of a panel with Grafana's defaults, and refuses what this tool does not know.

import {
  applyFieldOverrides,
  FieldConfigOptionsRegistry,
  fieldMatchers,
  identityOverrideProcessor,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from "@grafana/data";
import { defaultsDeep } from "lodash";
import { firstValueFrom } from "rxjs";

const legend = {
  showLegend: true,
  displayMode: "list",
  placement: "bottom",
  calcs: [],
  sortBy: undefined,
  sortDesc: undefined,
};
const reduce = { calcs: ["lastNotNull"], values: false, fields: "" };

/** By type of panel: its options, and those of a field in it that no other type has. */
const known = {
  timeseries: {
    options: { legend, tooltip: { mode: "single", sort: "none" } },
    custom: {
      drawStyle: "line",
      lineInterpolation: "linear",
      lineWidth: 1,
      fillOpacity: 0,
      gradientMode: "none",
      showPoints: "auto",
      pointSize: 5,
      spanNulls: false,
      stacking: { mode: "none", group: "A" },
      axisPlacement: "auto",
      axisLabel: "",
      axisGridShow: true,
      axisCenteredZero: false,
      axisBorderShow: false,
      axisColorMode: "text",
      scaleDistribution: { type: "linear" },
      hideFrom: { legend: false, tooltip: false, viz: false },
    },
    color: "palette-classic",
  },
  stat: {
    options: { colorMode: "value", graphMode: "area", justifyMode: "auto", textMode: "auto", reduceOptions: reduce },
    custom: {},
    color: "thresholds",
  },
  table: {
    options: { showHeader: true, cellHeight: "sm" },
    custom: { align: "auto", cellOptions: { type: "auto" }, minWidth: 150, width: undefined },
    color: "thresholds",
  },
};
const standard = ["displayName", "unit", "decimals", "min", "max", "noValue", "color", "thresholds", "mappings"];
const panelKeys = ["id", "type", "title", "description", "datasource", "gridPos", "fieldConfig", "options", "targets"];

/** Throws if an object has other keys than these. */
function only(object, keys, where) {
  const others = Object.keys(object ?? {}).filter((key) => !keys.includes(key));
  if (others.length > 0) throw new Error(`${where}: ${others.join(", ")} is not supported`);
}

const item = (path, isCustom) => ({
  id: isCustom ? `custom.${path}` : path,
  path,
  isCustom,
  name: path,
  process: identityOverrideProcessor,
  shouldApply: () => true,
});

standardTransformersRegistry.setInit(() =>
  [standardTransformers.organizeFieldsTransformer].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation,
  })),
);

/** The options of a panel, and its frames with the options of their fields. */
export async function prepared(panel, raw, theme) {
  const where = `panel ${panel.title}`;
  const type = known[panel.type];
  if (!type) throw new Error(`${where}: the type ${panel.type} is not supported`);
  only(panel, [...panelKeys, "results", "transformations"], where);
  only(panel.options, Object.keys(type.options), `${where}, options`);
  for (const [key, value] of Object.entries(panel.options ?? {})) {
    if (typeof value === "object") only(value, Object.keys(type.options[key]), `${where}, ${key}`);
  }
  const { defaults, overrides } = panel.fieldConfig;
  only(defaults, [...standard, "custom"], `${where}, fields`);
  only(defaults.custom, Object.keys(type.custom), `${where}, custom fields`);

  const items = [
    ...standard.map((path) => item(path, false)),
    ...Object.keys(type.custom).map((path) => item(path, true)),
  ];
  for (const { matcher, properties } of overrides) {
    fieldMatchers.get(matcher.id);
    only(Object.fromEntries(properties.map(({ id }) => [id, 0])), items.map(({ id }) => id), `${where}, overrides`);
  }
  const fieldConfig = {
    defaults: defaultsDeep({}, defaults, { custom: type.custom, color: { mode: type.color } }),
    overrides,
  };
  // JSON has no minus infinity: Grafana writes null for it.
  for (const step of fieldConfig.defaults.thresholds?.steps ?? []) step.value ??= -Infinity;
  const frames = applyFieldOverrides({
    data: await firstValueFrom(transformDataFrame(panel.transformations ?? [], raw)),
    fieldConfig,
    fieldConfigRegistry: new FieldConfigOptionsRegistry(() => items),
    replaceVariables: (text) => text,
    theme,
    timeZone: "utc",
  });
  return { options: defaultsDeep({}, panel.options, type.options), fieldConfig, frames };
}
