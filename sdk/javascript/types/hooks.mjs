// How Node finds what a handler imports. It runs in a thread of its own.

const SDK = new URL("runtime.mjs", import.meta.url).href;
/** What may be missing at the end of a path, as the daemon tries it. */
const ENDINGS = [".ts", ".mts", ".js", ".mjs", "/index.ts", "/index.js"];

export async function resolve(specifier, context, next) {
  if (specifier === "duebox") return { url: SDK, format: "module", shortCircuit: true };
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!/^\.\.?\//.test(specifier)) throw error;
    for (const ending of ENDINGS) {
      try {
        return await next(specifier + ending, context);
      } catch {
        // The next one may be there.
      }
    }
    throw error;
  }
}
