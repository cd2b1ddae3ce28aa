//! Names that are safe in a log line and in a path.

const LENGTH_MAX = 64;

/**
 * Whether a text is 1 to 64 letters, digits or -_.: and not only dots, which would change the path.
 */
export function isName(text: string): bool {
  if (text.length > LENGTH_MAX) return false;
  let dots = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    const letter = (code | 0x20) >= 0x61 && (code | 0x20) <= 0x7a;
    const digit = code >= 0x30 && code <= 0x39;
    const punctuation = code == 0x2d || code == 0x5f || code == 0x2e || code == 0x3a;
    if (!letter && !digit && !punctuation) return false;
    dots += i32(code == 0x2e);
  }
  return dots < text.length;
}
