//! How strings and numbers are written in JSON.

/** A string as JSON writes it. Half a surrogate pair, which UTF-8 does not have, is written as an escape. */
export function quoted(text: string): string {
  let written = '"';
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    const isPair = (c & 0xfc00) == 0xd800 && i + 1 < text.length && (text.charCodeAt(i + 1) & 0xfc00) == 0xdc00;
    if (isPair) {
      i++;
    } else if (c == 0x22 || c == 0x5c) {
      written += text.substring(start, i) + "\\";
      start = i;
    } else if (c < 0x20 || (c & 0xf800) == 0xd800) {
      written += text.substring(start, i) + "\\u" + c.toString(16).padStart(4, "0");
      start = i + 1;
    }
  }
  return written + text.substring(start) + '"';
}

/** A finite number as JSON writes it. */
export function numberText(value: f64): string {
  const text = value.toString();
  return text.endsWith(".0") ? text.substring(0, text.length - 2) : text;
}
