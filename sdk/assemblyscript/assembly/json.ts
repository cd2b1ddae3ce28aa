//! A JSON value: the contents of a payload, or why it is not JSON; or a value to be written.
//!
//! The existing AssemblyScript libraries abort the module on malformed text and read a value of the
//! wrong type as zero, so a handler could not drop a malformed job with a reason. Therefore the SDK
//! has its own.
//!
//! Invariant: nothing here traps. Reading a value as the wrong type returns Missing, null or zero;
//! the `is…` properties tell the difference.

import { JsonReader } from "./json-reader";
import { numberText, quoted } from "./json-text";

/** The type of a value. */
export enum JsonKind {
  /** Not JSON; `error` has the reason and the position. */
  Invalid,
  /** The value does not exist. */
  Missing,
  /** `null`. */
  Null,
  /** `true` or `false`. */
  Bool,
  /** A number. */
  Number,
  /** A string. */
  String,
  /** An array. */
  Array,
  /** An object. */
  Object,
}

/** A JSON value. `Json.parse` reads one; `Json.object` and `Json.array` start one to be written. */
export class Json {
  /** The text of a string, the digits of a number, or why the value is invalid. */
  private text: string = "";
  private truth: bool = false;
  private items: Array<Json> | null = null;
  private fields: Map<string, Json> | null = null;

  private constructor(
    /** The type of the value. */
    readonly kind: JsonKind,
  ) {}

  /**
   * Parses a whole text: UTF-8, at most 64 levels deep, no duplicate field, nothing after the
   * value.
   */
  static parse(bytes: Uint8Array): Json {
    return new JsonReader(bytes).whole();
  }

  /** A value that does not exist. */
  static missing(): Json {
    return new Json(JsonKind.Missing);
  }

  /** A text that is not JSON. */
  static invalid(error: string): Json {
    return Json.worded(JsonKind.Invalid, error);
  }

  /** An object without fields; `set` adds them. */
  static object(): Json {
    return Json.ofObject(new Map<string, Json>());
  }

  /** An array without items; `add` adds them. */
  static array(): Json {
    return Json.ofArray(new Array<Json>());
  }

  /** The value `null`. */
  static ofNull(): Json {
    return new Json(JsonKind.Null);
  }

  /** The value `true` or `false`. */
  static ofBool(truth: bool): Json {
    const value = new Json(JsonKind.Bool);
    value.truth = truth;
    return value;
  }

  /** An integer. */
  static ofInteger(value: i64): Json {
    return Json.ofNumber(value.toString());
  }

  /** A number with a fraction; `null` for NaN and the infinities, which JSON does not have. */
  static ofFloat(value: f64): Json {
    return isFinite(value) ? Json.ofNumber(numberText(value)) : Json.ofNull();
  }

  /** A number with these digits, as JSON writes it. */
  static ofNumber(digits: string): Json {
    return Json.worded(JsonKind.Number, digits);
  }

  /** A string. */
  static ofString(text: string): Json {
    return Json.worded(JsonKind.String, text);
  }

  /** An array of these items. */
  static ofArray(items: Array<Json>): Json {
    const value = new Json(JsonKind.Array);
    value.items = items;
    return value;
  }

  /** An object with these fields. */
  static ofObject(fields: Map<string, Json>): Json {
    const value = new Json(JsonKind.Object);
    value.fields = fields;
    return value;
  }

  private static worded(kind: JsonKind, text: string): Json {
    const value = new Json(kind);
    value.text = text;
    return value;
  }

  /** Why the text is not JSON, with the byte position; null if it is JSON. */
  get error(): string | null {
    return this.kind == JsonKind.Invalid ? this.text : null;
  }

  /** Whether the value does not exist. */
  get isMissing(): bool {
    return this.kind == JsonKind.Missing;
  }

  /** Whether it is `null`. */
  get isNull(): bool {
    return this.kind == JsonKind.Null;
  }

  /** Whether it is `true` or `false`. */
  get isBool(): bool {
    return this.kind == JsonKind.Bool;
  }

  /** Whether it is a number. */
  get isNumber(): bool {
    return this.kind == JsonKind.Number;
  }

  /** Whether it is a string. */
  get isString(): bool {
    return this.kind == JsonKind.String;
  }

  /** Whether it is an array. */
  get isArray(): bool {
    return this.kind == JsonKind.Array;
  }

  /** Whether it is an object. */
  get isObject(): bool {
    return this.kind == JsonKind.Object;
  }

  /** Whether it is an integer of at most 18 digits, which `integer` returns exactly. */
  get isInteger(): bool {
    if (this.kind != JsonKind.Number) return false;
    const sign = this.text.startsWith("-") ? 1 : 0;
    if (this.text.length - sign > 18) return false;
    for (let i = sign; i < this.text.length; i++) {
      const digit = this.text.charCodeAt(i);
      if (digit < 48 || digit > 57) return false;
    }
    return true;
  }

  /** The text of a string; null for other types. */
  get string(): string | null {
    return this.kind == JsonKind.String ? this.text : null;
  }

  /** The value of an integer; 0 for other types (see `isInteger`). */
  get integer(): i64 {
    return this.isInteger ? I64.parseInt(this.text, 10) : 0;
  }

  /** The value of a number; 0 for other types (see `isNumber`). */
  get number(): f64 {
    return this.kind == JsonKind.Number ? F64.parseFloat(this.text) : 0;
  }

  /** The value of a bool; false for other types (see `isBool`). */
  get bool(): bool {
    return this.truth;
  }

  /** The number of items of an array or fields of an object; 0 for other types. */
  get length(): i32 {
    if (this.items !== null) return this.items!.length;
    if (this.fields !== null) return this.fields!.size;
    return 0;
  }

  /** A field of an object; Missing if it does not exist. */
  get(name: string): Json {
    const fields = this.fields;
    if (fields === null || !fields.has(name)) return Json.missing();
    return fields.get(name);
  }

  /** An item of an array, from 0; Missing if it does not exist. */
  at(index: i32): Json {
    const items = this.items;
    if (items === null || index < 0 || index >= items.length) return Json.missing();
    return items[index];
  }

  /** The names of an object's fields, in the order of the text. */
  names(): Array<string> {
    return this.fields === null ? [] : this.fields!.keys();
  }

  /** Sets a field of an object; other types stay as they are. */
  set(name: string, value: Json): this {
    const fields = this.fields;
    if (fields !== null) fields.set(name, value);
    return this;
  }

  /** Adds an item to an array; other types stay as they are. */
  add(value: Json): this {
    const items = this.items;
    if (items !== null) items.push(value);
    return this;
  }

  /** The value as JSON text. What is missing or invalid is written as `null`. */
  toString(): string {
    switch (this.kind) {
      case JsonKind.Bool:
        return this.truth ? "true" : "false";
      case JsonKind.Number:
        return this.text;
      case JsonKind.String:
        return quoted(this.text);
      case JsonKind.Array: {
        const texts = new Array<string>();
        for (let i = 0; i < this.length; i++) texts.push(this.items![i].toString());
        return "[" + texts.join(",") + "]";
      }
      case JsonKind.Object: {
        const names = this.names();
        const texts = new Array<string>();
        for (let i = 0; i < names.length; i++) texts.push(quoted(names[i]) + ":" + this.get(names[i]).toString());
        return "{" + texts.join(",") + "}";
      }
      default:
        return "null";
    }
  }

  /** The value as JSON in UTF-8. */
  toBytes(): Uint8Array {
    return Uint8Array.wrap(String.UTF8.encode(this.toString()));
  }
}
