// expect: out_of_memory
export default async () => {
  await null;
  const all = [];
  for (;;) all.push({ of: all });
};
