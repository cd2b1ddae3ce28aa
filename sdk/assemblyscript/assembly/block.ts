//! Blocks (`docs/reference/abi.md`): lines `name: value` that describe a request or a follow-up to the host.
//! These functions detect names and values that would forge a second line.

/** Whether the name is allowed in a block. */
export function isName(name: string): bool {
  for (let i = 0; i < name.length; i++) {
    const c = name.charCodeAt(i);
    const allowed = (c >= 0x61 && c <= 0x7a) || (c >= 0x30 && c <= 0x39) || c == 0x2e || c == 0x2d ||
      c == 0x5f;
    if (!allowed) return false;
  }
  return true;
}

/** Whether a value has a control character, which a block does not allow. */
export function hasControl(value: string): bool {
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return true;
  }
  return false;
}
