// A handler that runs in Node too: digests and signatures of a payload, in hexadecimal digits.

const hex = (buffer) => Array.from(new Uint8Array(buffer), (byte) => byte.toString(16).padStart(2, "0")).join("");

export default async function handle({ text, key }, isNode = false) {
  const data = new TextEncoder().encode(text);
  const found = {};
  for (const hash of ["SHA-1", "SHA-256", "SHA-384", "SHA-512"]) {
    found[hash] = hex(await crypto.subtle.digest(hash, data));
    for (const bytes of [new TextEncoder().encode(key), new Uint8Array(200).fill(7)]) {
      const hmac = { name: "HMAC", hash };
      const imported = await crypto.subtle.importKey("raw", bytes, hmac, true, ["sign", "verify"]);
      const signature = await crypto.subtle.sign("HMAC", imported, data);
      found[`${hash} HMAC ${bytes.length}`] = [
        hex(signature),
        await crypto.subtle.verify(hmac, imported, signature, data),
        await crypto.subtle.verify(hmac, imported, signature.slice(1), data),
        hex(await crypto.subtle.exportKey("raw", imported)),
        imported.algorithm.length,
      ];
    }
    const made = await crypto.subtle.generateKey({ name: "HMAC", hash }, true, ["sign"]);
    found[`${hash} key`] = (await crypto.subtle.exportKey("raw", made)).byteLength;
  }
  if (isNode) return found;
  const { result } = await import("duebox");
  result(found);
}
