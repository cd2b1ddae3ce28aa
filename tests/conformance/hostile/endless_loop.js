// expect: timeout
export default () => {
  for (;;) {}
};
