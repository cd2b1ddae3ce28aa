// expect: timeout
export default () => {
  for (;;) console.log("x".repeat(10_000));
};
