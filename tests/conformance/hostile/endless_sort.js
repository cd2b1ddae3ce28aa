// expect: timeout
export default () => {
  for (;;) Array.from({ length: 10_000 }, () => Math.random()).sort(() => Math.random() - 0.5);
};
