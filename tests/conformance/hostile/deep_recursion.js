// expect: stack_overflow
const deep = (n) => deep(n + 1) + 1;
export default () => deep(0);
