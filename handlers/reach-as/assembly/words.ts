//! Splits a step into words.

/** The text before the first separator, or all of it. */
export function before(line: string, separator: string): string {
  const at = line.indexOf(separator);
  return at < 0 ? line : line.substring(0, at);
}

/** The text after the first separator, or nothing. */
export function behind(line: string, separator: string): string {
  const at = line.indexOf(separator);
  return at < 0 ? "" : line.substring(at + 1);
}
