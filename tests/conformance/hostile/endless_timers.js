// expect: timeout
export default () => new Promise(() => setInterval(() => {}, 0));
