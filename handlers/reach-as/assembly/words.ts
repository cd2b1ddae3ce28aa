//! Cuts a step into its words.

/** What stands before the first mark, or all of it. */
export function before(line: string, mark: string): string {
  const at = line.indexOf(mark);
  return at < 0 ? line : line.substring(0, at);
}

/** What stands behind the first mark, or nothing. */
export function behind(line: string, mark: string): string {
  const at = line.indexOf(mark);
  return at < 0 ? "" : line.substring(at + 1);
}
