// expect: nack
export default () => {
  throw null;
};
