// expect: timeout
// A regular expression that takes exponential time.
export default () => /^(a+)+$/.test("a".repeat(40) + "b");
