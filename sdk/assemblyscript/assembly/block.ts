//! Blocks (`docs/reference/abi.md`): lines `name: value` by which the host is told what a request or a follow-up is.
//! What could make two lines of one is asked for here.

/** Whether a block can have the name. */
export function isName(name: string): bool {
  for (let i = 0; i < name.length; i++) {
    const c = name.charCodeAt(i);
    const allowed = (c >= 0x61 && c <= 0x7a) || (c >= 0x30 && c <= 0x39) || c == 0x2e || c == 0x2d ||
      c == 0x5f;
    if (!allowed) return false;
  }
  return true;
}

/** Whether a value has a control character, which no block can have. */
export function hasControl(value: string): bool {
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return true;
  }
  return false;
}
