// expect: stack_overflow
export default () => JSON.parse("[".repeat(1_000_000));
