// expect: out_of_memory
export default () => {
  const all = [];
  for (;;) all.push(new Array(1000).fill(1));
};
