import assert from "node:assert/strict";
import test from "node:test";
import vm from "node:vm";

import { read } from "./host.mjs";

/** The source without its types, if it is JavaScript then. */
function stripped(source) {
  const { verdict, blanked, lines } = read(source);
  assert.equal(verdict, 0, source);
  assert.ok(!lines[0]?.startsWith("error"), `${source}: ${lines[0]}`);
  assert.equal(blanked.length, source.length);
  if (!/\b(import|export)\b/.test(blanked)) new vm.Script(blanked);
  return blanked.replace(/ +/g, " ").trim();
}

test("types become blanks", () => {
  for (const [source, wanted] of [
    ["let x: number = y as any", "let x = y;"],
    ["let x!: number;", "let x ;"],
    ["const f = async <T>(x?: T, ...r: T[]): Promise<T> => x!", "const f = async (x , ...r ) => x"],
    ["function f(this: A, b) {}", "function f( b) {}"],
    ["function f(a: string): void\nfunction f(a) {}", ";\nfunction f(a) {}".replace(";\n", "; \n")],
    ["f<A>(1); new M<A, B>(); <any>x; x satisfies T;", "f (1); new M (); x; x ;"],
    ["class A<T> extends B<T> implements C { private readonly x?: T = 1; declare y: T; abstract z(): void; [k: string]: T }",
      "class A extends B { x = 1; ; ; ; }"],
    ["try {} catch (e: unknown) {}", "try {} catch (e ) {}"],
  ]) assert.equal(stripped(source), wanted, source);
});

test("what follows a blanked type does not continue the statement before it", () => {
  for (const [source, wanted] of [
    ["const a = b as T\n[1].map(f)", "const a = b; \n[1].map(f)"],
    ["const a = 1\ninterface I {}\n(f)()", "const a = 1\n; \n(f)()"],
    ["class A { get: T\n foo() {} }", "class A { get; \n foo() {} }"],
  ]) assert.equal(stripped(source), wanted, source);
});

test("an arrow stays on the line of its parameters", () => {
  assert.equal(stripped("const f = (a: A): {\n b: B;\n} => 1"), "const f = (a \n \n) => 1");
  assert.match(read("const f = async <\nT>(a: T) => 1").lines[0], /^error 16 write the type parameters/);
});

test("imports are listed, and those of types are not", () => {
  const source = `import { A, type B, C } from "./a";
import type { D } from "./d";
import { E } from "./e";
import F from "./f.json";
import "./side";
export * from "./all";
export type { D };
const m = await import("./dynamic");
let x: C, y: E = A(F);`;
  const { lines, blanked } = read(source);
  const found = lines.map((line) => line.split(" ").slice(2).join(" ")).sort();
  assert.deepEqual(found, ["./a", "./all", "./dynamic", "./f.json", "./side"]);
  assert.match(blanked, /^import \{ A, +\} from "\.\/a";/);
  assert.deepEqual(read("const a = 1", "j").lines, ["script"]);
});

/** What a source computes as `result`, after its types are removed. Lines stay where they are. */
function computed(source) {
  const { lines, blanked } = read(source);
  assert.ok(!lines[0]?.startsWith("error"), `${source}: ${lines[0]}`);
  assert.equal(blanked.split("\n").length, source.split("\n").length, source);
  const context = vm.createContext({ f: (value) => value });
  vm.runInContext(blanked.replace(/^export /gm, ""), context);
  return JSON.parse(JSON.stringify(vm.runInContext("result", context)));
}

test("enums become objects as TypeScript makes them", () => {
  for (const [source, wanted] of [
    ["enum E { A, B = 5, C, }\nvar result = [E.A, E.B, E.C, E[6], Object.keys(E)]", [0, 5, 6, "C", ["0", "5", "6", "A", "B", "C"]]],
    ["export enum E { // a, b\n A = 'x', /* , */ B = `y`\n}\nvar result = E", { A: "x", B: "y" }],
    ["const enum E { A = 1 << 2, B = A | 1, C = E.B + f(1) as number }\nvar result = [E.A, E.B, E.C]", [4, 5, 6]],
    ["enum E { 'with-dash' = -1, 'new', \"q'\" }\nvar result = [E['with-dash'], E.new, E[\"q'\"]]", [-1, 0, 1]],
    ["export enum E { A }\nexport enum E { B = 1 }\nvar result = [E.A, E.B]", [0, 1]],
    ["declare enum D { A }\nenum E {}\nfunction g() { enum In { A = 3 } return In.A }\nvar result = [E, g()]", [{}, 3]],
  ]) assert.deepEqual(computed(source), wanted, source);
});

test("parameters of a constructor declare properties", () => {
  for (const [source, wanted] of [
    ["class A { constructor(private readonly a: number, b = 2, public c?: string) { this.b = b + this.a } }\nvar result = new A(1)", { a: 1, b: 3 }],
    ["class A {\n x = 0\n constructor(protected a = 7) {}\n}\nvar result = new A()", { a: 7, x: 0 }],
    ["class B { constructor(n) { this.n = n } }\nclass A<T> extends B { constructor(override readonly a: T) {\n 'use strict'\n super(a as any)\n this.d = this.a\n }\n}\nvar result = new A(4)", { n: 4, a: 4, d: 4 }],
  ]) assert.deepEqual(computed(source), wanted, source);
});

test("files of packages say whether they are CommonJS, and what they require", () => {
  const lines = (source, language) => read(source, language).lines;
  assert.deepEqual(lines("module.exports = require('./a'); if (x) require('b'); require(y)", "p"), ["script", "require 25 ./a", "require 48 b"]);
  assert.deepEqual(lines("if (1) return; with (a) {}", "p"), ["script"]);
  assert.deepEqual(lines("export default require('./a')", "p"), []);
  assert.deepEqual(lines("exports.a = 010", "c"), ["script"]);
  assert.match(lines("exports.a = ;", "p")[0], /^error 12 /);
  assert.match(read("if (process.env.NODE_ENV !== 'production') f()", "p").blanked, /^if \("production" {8} !== 'production'\) f\(\)$/);
});

test("what is more than a type is refused with its place", () => {
  for (const [source, wanted] of [
    ["namespace N { export const a = 1 }", /^error 0 a namespace/],
    ["class A { constructor(public { a }: B) {} }", /^error \d+ /],
    ["class A extends B { constructor(public a: number) { f(super()) } }", /^error 31 a constructor whose parameters/],
    ["@d class A {}", /^error 0 the engine has no decorators/],
    ["import a = require('a')", /^error 0 /],
    ["export = 5", /^error 0 /],
    ["const x = ;", /^error 10 Unexpected token/],
  ]) assert.match(read(source).lines[0], wanted, source);
});

test("a source that is nested too deeply ends the instance, not the host", () => {
  for (const open of ["(", "["]) assert.throws(() => read(open.repeat(200_000)));
});

test("a file with more types than a report can hold is dropped", () => {
  assert.equal(read("let x: number = 1 as any;\n".repeat(20_000)).verdict, 2);
});
