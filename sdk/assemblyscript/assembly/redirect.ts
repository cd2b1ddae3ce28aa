//! The target of a redirect.
//!
//! Invariant: a doubtful target is not followed and counts as another origin. The host checks each
//! hop against the grant anew.

/**
 * Resolves a Location against base into an absolute URL without fragment; null if it cannot. The
 * host resolves dot segments in the path.
 */
export function target(base: string, location: string): string | null {
  for (let i = 0; i < location.length; i++) {
    const c = location.charCodeAt(i);
    if (c <= 0x20 || c == 0x5c || (c >= 0x7f && c <= 0xa0)) return null;
  }
  location = before(location, "#");
  base = before(base, "#");
  const root = origin(base);
  const path = before(base, "?").substring(root.length);
  let url: string;
  if (hasScheme(location)) url = location;
  else if (location.startsWith("//")) url = before(root, ":") + ":" + location;
  else if (location.startsWith("/")) url = root + location;
  else if (location.length == 0) url = base;
  else if (location.startsWith("?")) url = root + path + location;
  else url = root + folder(path) + location;
  return origin(url).length > 0 ? url : null;
}

/**
 * Scheme, host and port of an absolute http or https URL as they are written; empty for anything
 * else, such as a URL without a host.
 */
export function origin(url: string): string {
  const colon = url.indexOf("://");
  const scheme = url.substring(0, max(0, colon)).toLowerCase();
  if (scheme != "http" && scheme != "https") return "";
  const start = colon + 3;
  let end = start;
  while (end < url.length && !"/?#\\".includes(url.charAt(end))) end++;
  const host = url.substring(max(start, url.lastIndexOf("@", end - 1) + 1), end);
  return host.length > 0 && host.charAt(0) != ":" ? url.substring(0, end) : "";
}

/** A path up to its last slash. */
function folder(path: string): string {
  const end = path.lastIndexOf("/");
  return end < 0 ? "/" : path.substring(0, end + 1);
}

/** Whether it begins with a scheme of any kind. */
function hasScheme(location: string): bool {
  const colon = location.indexOf(":");
  for (let i = 0; i < colon; i++) {
    const c = location.charCodeAt(i);
    const isLetter = (c | 0x20) >= 0x61 && (c | 0x20) <= 0x7a;
    const isOther = (c >= 0x30 && c <= 0x39) || c == 0x2b || c == 0x2d || c == 0x2e;
    if (!isLetter && (i == 0 || !isOther)) return false;
  }
  return colon > 0;
}

/** The text before the first separator, or all of it. */
function before(text: string, separator: string): string {
  const at = text.indexOf(separator);
  return at < 0 ? text : text.substring(0, at);
}
