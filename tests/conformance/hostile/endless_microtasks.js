// expect: timeout
const again = () => Promise.resolve().then(again);
export default again;
