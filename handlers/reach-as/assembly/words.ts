//! Splits a step into words.

/** The text before the first mark, or all of it. */
export function before(line: string, mark: string): string {
  const at = line.indexOf(mark);
  return at < 0 ? line : line.substring(0, at);
}

/** The text after the first mark, or nothing. */
export function behind(line: string, mark: string): string {
  const at = line.indexOf(mark);
  return at < 0 ? "" : line.substring(at + 1);
}
