//! Parses JSON as specified by RFC 8259 from bytes.
//!
//! Invariant: the reader never reads outside its bytes and goes at most DEPTH_MAX levels deep.
//! After the first error (`mistake` is set) every function returns without reading on.

import { isUtf8, text } from "./abi";
import { Json } from "./json";

const DEPTH_MAX: i32 = 64;

/** Returned past the end of the bytes. */
const END: i32 = -1;

/** A reader of one text. */
export class JsonReader {
  private at: i32 = 0;
  private depth: i32 = 0;
  private mistake: string | null = null;

  constructor(private bytes: Uint8Array) {}

  /** Parses the whole text as one value. */
  whole(): Json {
    if (!isUtf8(this.bytes)) return Json.invalid("not UTF-8");
    const value = this.value();
    this.skipSpace();
    if (this.peek() != END) this.fail("nothing after the value");
    const mistake = this.mistake;
    return mistake === null ? value : Json.invalid(mistake);
  }

  private value(): Json {
    this.skipSpace();
    switch (this.peek()) {
      case 0x7b: // {
        return this.object();
      case 0x5b: // [
        return this.array();
      case 0x22: // "
        return Json.ofString(this.string());
      case 0x74: // t
        this.word("true");
        return Json.ofBool(true);
      case 0x66: // f
        this.word("false");
        return Json.ofBool(false);
      case 0x6e: // n
        this.word("null");
        return Json.ofNull();
      default:
        return this.number();
    }
  }

  private object(): Json {
    const fields = new Map<string, Json>();
    if (!this.enter(0x7d)) return Json.ofObject(fields);
    do {
      this.skipSpace();
      const start = this.at;
      const name = this.string();
      if (fields.has(name)) {
        this.at = start;
        this.fail("every field once");
      }
      this.skipSpace();
      this.take(0x3a, "a colon");
      fields.set(name, this.value());
    } while (this.goesOn(0x7d));
    return Json.ofObject(fields);
  }

  private array(): Json {
    const items = new Array<Json>();
    if (!this.enter(0x5d)) return Json.ofArray(items);
    do {
      items.push(this.value());
    } while (this.goesOn(0x5d));
    return Json.ofArray(items);
  }

  /** Consumes an opening bracket; returns whether an item follows. */
  private enter(close: i32): bool {
    this.at++;
    if (++this.depth > DEPTH_MAX) {
      this.fail("at most 64 levels");
      return false;
    }
    this.skipSpace();
    if (this.peek() != close) return true;
    this.at++;
    this.depth--;
    return false;
  }

  /** After an item: returns true on a comma, consumes the closing bracket otherwise. */
  private goesOn(close: i32): bool {
    this.skipSpace();
    if (this.mistake !== null) return false;
    if (this.peek() == 0x2c) {
      this.at++;
      return true;
    }
    this.take(close, close == 0x7d ? "a comma or }" : "a comma or ]");
    this.depth--;
    return false;
  }

  private string(): string {
    this.take(0x22, "a string");
    let result = "";
    let start = this.at;
    while (this.mistake === null) {
      const byte = this.peek();
      if (byte == 0x22) {
        result += this.slice(start);
        this.at++;
        return result;
      }
      if (byte == 0x5c) {
        result += this.slice(start);
        this.at++;
        result += this.escape();
        start = this.at;
      } else if (byte < 0x20) {
        this.fail(byte == END ? "a closing quote" : "no control character in a string");
      } else {
        this.at++;
      }
    }
    return result;
  }

  private escape(): string {
    const byte = this.peek();
    this.at++;
    switch (byte) {
      case 0x22: return '"';
      case 0x5c: return "\\";
      case 0x2f: return "/";
      case 0x62: return "\b";
      case 0x66: return "\f";
      case 0x6e: return "\n";
      case 0x72: return "\r";
      case 0x74: return "\t";
      case 0x75: return this.unicode();
      default:
        this.at--;
        this.fail("an escape");
        return "";
    }
  }

  /** The character of \uXXXX, or of a surrogate pair of two. */
  private unicode(): string {
    const first = this.hex();
    if (first < 0xd800 || first > 0xdfff) return String.fromCharCode(first);
    const paired = first < 0xdc00 && this.peek() == 0x5c && this.peek(1) == 0x75;
    if (paired) this.at += 2;
    const second = paired ? this.hex() : 0;
    if (second < 0xdc00 || second > 0xdfff) this.fail("a surrogate pair");
    return String.fromCharCode(first) + String.fromCharCode(second);
  }

  private hex(): i32 {
    let number = 0;
    for (let i = 0; i < 4; i++) {
      const byte = this.peek();
      const letter = byte | 0x20;
      if (byte >= 0x30 && byte <= 0x39) number = number * 16 + byte - 0x30;
      else if (letter >= 0x61 && letter <= 0x66) number = number * 16 + letter - 0x57;
      else {
        this.fail("four hexadecimal digits");
        return 0;
      }
      this.at++;
    }
    return number;
  }

  private number(): Json {
    const start = this.at;
    if (this.peek() == 0x2d) this.at++;
    if (this.peek() == 0x30) this.at++;
    else this.digits("a value");
    if (this.peek() == 0x2e) {
      this.at++;
      this.digits("a digit");
    }
    if ((this.peek() | 0x20) == 0x65) {
      this.at++;
      if (this.peek() == 0x2b || this.peek() == 0x2d) this.at++;
      this.digits("a digit");
    }
    return Json.ofNumber(this.slice(start));
  }

  private digits(wanted: string): void {
    const start = this.at;
    while (this.peek() >= 0x30 && this.peek() <= 0x39) this.at++;
    if (this.at == start) this.fail(wanted);
  }

  private word(word: string): void {
    for (let i = 0; i < word.length; i++) this.take(word.charCodeAt(i), "a value");
  }

  private take(byte: i32, wanted: string): void {
    if (this.peek() == byte) this.at++;
    else this.fail(wanted);
  }

  private skipSpace(): void {
    while (true) {
      const byte = this.peek();
      if (byte != 0x20 && byte != 0x0a && byte != 0x0d && byte != 0x09) return;
      this.at++;
    }
  }

  /** The byte at the current position plus `further`; END past the last one and after an error. */
  private peek(further: i32 = 0): i32 {
    const at = this.at + further;
    if (this.mistake !== null || at >= this.bytes.length) return END;
    return unchecked(this.bytes[at]);
  }

  private slice(start: i32): string {
    return text(this.bytes.subarray(start, this.at), this.at - start);
  }

  private fail(wanted: string): void {
    if (this.mistake === null) {
      this.mistake = "malformed JSON at byte " + this.at.toString() + ": expected " + wanted;
    }
  }
}
