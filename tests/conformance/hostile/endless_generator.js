// expect: timeout
function* numbers() {
  for (let n = 0; ; n++) yield n;
}
export default () => [...(function* () { for (const n of numbers()) if (n < 0) yield n; })()];
