// expect: nack
export default () => {
  throw Object.defineProperty(new Error("x"), "message", { get() { throw new Error("another"); } });
};
