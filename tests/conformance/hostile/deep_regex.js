// expect: nack
// A pattern that nests too deep for the compiler of regular expressions.
export default () => new RegExp("(".repeat(100_000) + ")".repeat(100_000));
