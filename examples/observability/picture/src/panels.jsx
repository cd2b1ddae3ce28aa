// The panels: what Grafana's own panels of these types do with the components of @grafana/ui.

import React from "react";
import { getDisplayValueAlignmentFactors, getFieldDisplayValues } from "@grafana/data";
import { BigValue, PanelChrome, Table, TimeSeries, useTheme2 } from "@grafana/ui";

function Stat({ options, fieldConfig, frames, width, height }) {
  const theme = useTheme2();
  const values = getFieldDisplayValues({
    fieldConfig,
    reduceOptions: options.reduceOptions,
    replaceVariables: (text) => text,
    theme,
    data: frames,
    sparkline: options.graphMode !== "none",
    timeZone: "utc",
  });
  if (values.length !== 1) throw new Error(`a stat has ${values.length} values, and this tool draws one`);
  return (
    <BigValue
      value={values[0].display}
      sparkline={values[0].sparkline}
      alignmentFactors={getDisplayValueAlignmentFactors(values)}
      colorMode={options.colorMode}
      graphMode={options.graphMode}
      justifyMode={options.justifyMode}
      textMode={options.textMode}
      theme={theme}
      width={width}
      height={height}
    />
  );
}

const draw = {
  stat: (given) => <Stat {...given} />,
  table: ({ options, frames, ...size }) => (
    <Table data={frames[0]} showTypeIcons={false} noHeader={!options.showHeader} cellHeight={options.cellHeight} {...size} />
  ),
  timeseries: ({ options, frames, timeRange, ...size }) => (
    <TimeSeries
      frames={frames}
      legend={options.legend}
      options={options}
      timeRange={timeRange}
      timeZone="utc"
      structureRev={1}
      {...size}
    />
  ),
};

export function Panel({ panel, place, ...given }) {
  return (
    <div style={{ position: "absolute", ...place }}>
      <PanelChrome
        title={panel.title}
        description={panel.description}
        width={place.width}
        height={place.height}
        padding={panel.type === "timeseries" ? "md" : "none"}
      >
        {(width, height) => draw[panel.type]({ ...given, width, height })}
      </PanelChrome>
    </div>
  );
}
