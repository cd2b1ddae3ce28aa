#!/usr/bin/env node
// Runs the binary of this platform, which an optional dependency contains.
"use strict";

const { spawn } = require("node:child_process");

const name = `@duebox/${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/duebox`);
} catch {
  console.error(
    `duebox: the package ${name} is not installed; install duebox without --omit=optional, ` +
      "or build it: https://github.com/duebox/duebox#install",
  );
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// The daemon drains by a signal; a Ctrl-C reaches it as part of the terminal's group.
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
process.on("SIGINT", () => {});
child.on("error", (error) => {
  console.error(`duebox: ${binary} cannot be run: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal) process.kill(process.pid, signal === "SIGKILL" ? "SIGTERM" : signal);
  process.exit(code ?? 1);
});
