// expect: ack
// The functions of the host, and the import that reads the clock, cannot be reached.
export default () => {
  const names = Object.getOwnPropertyNames(globalThis);
  if (names.some((name) => name.includes("duebox") || name.includes("host"))) return "drop";
  if (Function("return typeof host + typeof __duebox")() !== "undefinedundefined") return "drop";
};
