// expect: stack_overflow
const it = { get again() { return this.again; } };
export default () => it.again;
