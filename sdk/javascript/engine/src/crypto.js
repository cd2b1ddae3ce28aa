// The global `crypto`: random values, digests, and signatures with HMAC, as the Web Cryptography API has them.

/** The digests, by their names, with their lengths in bits and the lengths of their blocks in bytes. */
const DIGESTS = { "SHA-1": [160, 64], "SHA-256": [256, 64], "SHA-384": [384, 128], "SHA-512": [512, 128] };

function notSupported(what) {
  const error = new Error(`${what} is not supported in a Duebox handler; digests are SHA-1, SHA-256, SHA-384 and SHA-512, signatures HMAC`);
  error.name = "NotSupportedError";
  return error;
}

function invalidAccess(message) {
  const error = new Error(message);
  error.name = "InvalidAccessError";
  return error;
}

function digestOf(algorithm) {
  const name = text(algorithm?.name ?? algorithm).toUpperCase();
  if (!Object.hasOwn(DIGESTS, name)) throw notSupported(name);
  return { name, bits: DIGESTS[name][0], block: DIGESTS[name][1] };
}

function isHmac(algorithm) {
  const name = text(algorithm?.name ?? algorithm);
  if (name.toUpperCase() !== "HMAC") throw notSupported(name);
}

function dataOf(value) {
  if (!isBytes(value)) throw new TypeError("crypto.subtle takes an ArrayBuffer or a view of one; encode texts with TextEncoder");
  return bytesOf(value);
}

class CryptoKey {
  #bytes;
  #bits;
  constructor(token, bytes, hash, extractable, usages) {
    if (token !== DIGESTS) throw new TypeError("a key is made by crypto.subtle.importKey");
    this.#bytes = bytes;
    this.#bits = hash.bits;
    this.type = "secret";
    this.extractable = Boolean(extractable);
    this.algorithm = Object.freeze({ name: "HMAC", hash: Object.freeze({ name: hash.name }), length: 8 * bytes.length });
    this.usages = Object.freeze([...usages]);
    Object.freeze(this);
  }
  static bytesOf(key) { return key.#bytes; }
  static sign(key, usage, data) {
    if (!(key instanceof CryptoKey)) throw new TypeError("it takes a key of crypto.subtle.importKey");
    if (!key.usages.includes(usage)) throw invalidAccess(`the key was not imported for "${usage}"`);
    return host.hmac(key.#bits, key.#bytes, dataOf(data));
  }
}

const { bytesOf: bytesOfKey, sign: signWith } = CryptoKey;
delete CryptoKey.bytesOf;
delete CryptoKey.sign;

const KEY_USAGES = ["sign", "verify"];

function makeKey(bytes, hash, extractable, usages) {
  const wanted = Array.from(usages ?? []);
  if (wanted.length === 0 || !wanted.every((usage) => KEY_USAGES.includes(usage))) {
    throw new SyntaxError('the usages of an HMAC key are "sign" and "verify"');
  }
  return new CryptoKey(DIGESTS, bytes, hash, extractable, wanted);
}

/** Takes as long for a wrong byte at the start as for one at the end. */
function isSame(one, other) {
  let difference = one.length ^ other.length;
  for (let i = 0; i < one.length; i++) difference |= one[i] ^ other[i];
  return difference === 0;
}

const subtle = {
  async digest(algorithm, data) { return host.digest(digestOf(algorithm).bits, dataOf(data)).buffer; },
  async importKey(format, data, algorithm, extractable, usages) {
    isHmac(algorithm);
    if (format !== "raw") throw notSupported(`importKey(${JSON.stringify(format)}, …)`);
    const bytes = dataOf(data).slice();
    if (bytes.length === 0) throw new TypeError("the key is empty");
    return makeKey(bytes, digestOf(algorithm.hash), extractable, usages);
  },
  async generateKey(algorithm, extractable, usages) {
    isHmac(algorithm);
    const hash = digestOf(algorithm.hash);
    const length = algorithm.length === undefined ? hash.block : Math.ceil(Number(algorithm.length) / 8);
    if (!(length > 0 && length <= 65536)) throw new TypeError("the length of a key is 1 to 524288 bits");
    return makeKey(host.random(length), hash, extractable, usages);
  },
  async exportKey(format, key) {
    if (!(key instanceof CryptoKey)) throw new TypeError("it takes a key of crypto.subtle.importKey");
    if (format !== "raw") throw notSupported(`exportKey(${JSON.stringify(format)}, …)`);
    if (!key.extractable) throw invalidAccess("the key is not extractable");
    return bytesOfKey(key).slice().buffer;
  },
  async sign(algorithm, key, data) {
    isHmac(algorithm);
    return signWith(key, "sign", data).buffer;
  },
  async verify(algorithm, key, signature, data) {
    isHmac(algorithm);
    return isSame(signWith(key, "verify", data), dataOf(signature));
  },
};

for (const name of ["encrypt", "decrypt", "deriveBits", "deriveKey", "wrapKey", "unwrapKey"]) {
  subtle[name] = async () => { throw notSupported(`crypto.subtle.${name}`); };
}

const crypto = Object.freeze({
  getRandomValues(array) {
    if (!ArrayBuffer.isView(array)) throw new TypeError("getRandomValues takes a typed array");
    if (array.byteLength > 65536) throw new RangeError("getRandomValues fills at most 65536 bytes");
    bytesOf(array).set(host.random(array.byteLength));
    return array;
  },
  randomUUID() {
    const bytes = host.random(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
  },
  subtle: Object.freeze(subtle),
});

/** `length` random bytes. */
export const random = (length) => host.random(length);
