// The page: the panels of one picture in Grafana's grid, with its dark theme.

import React from "react";
import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import { createTheme, dateTime } from "@grafana/data";
import { GlobalStyles, Icon, ThemeContext } from "@grafana/ui";
import { frames } from "./frames.js";
import { prepared } from "./options.js";
import { Panel } from "./panels.jsx";

// Grafana's grid: 24 columns, rows of 30 pixels, 8 pixels between panels.
const [columns, row, gap, border] = [24, 30, 8, 16];
const unit = (document.documentElement.clientWidth - 2 * border + gap) / columns;

const place = ({ x, y, w, h }, top) => ({
  left: border + x * unit,
  top: border + (y - top) * (row + gap),
  width: w * unit - gap,
  height: h * (row + gap) - gap,
});

const Heading = ({ title, place }) => (
  <div style={{ position: "absolute", ...place, display: "flex", alignItems: "center", gap: 8, fontWeight: 500 }}>
    <Icon name="angle-down" />
    {title}
  </div>
);

/** Draws the panels, and returns the height of the page. */
window.draw = async function draw({ panels, range }) {
  const theme = createTheme({ colors: { mode: "dark" } });
  const root = createRoot(document.getElementById("page"));
  const themed = (children) => (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      {children}
    </ThemeContext.Provider>
  );
  // Charts measure their labels, so the fonts come first.
  flushSync(() => root.render(themed()));
  await Promise.all([400, 500].map((weight) => document.fonts.load(`${weight} 14px Inter`)));
  const [from, to] = [range.from, range.to].map((at) => dateTime(at * 1000));
  const timeRange = { from, to, raw: { from, to } };
  const top = panels[0].gridPos.y;
  const drawn = [];
  for (const panel of panels) {
    const at = place(panel.gridPos, top);
    if (panel.type === "row") drawn.push(<Heading key={panel.id} title={panel.title} place={at} />);
    else {
      const given = await prepared(panel, frames(panel.results, range), theme);
      drawn.push(<Panel key={panel.id} panel={panel} place={at} timeRange={timeRange} {...given} />);
    }
  }
  root.render(themed(drawn));
  return Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h - top)) * (row + gap) - gap + 2 * border;
};
