// expect: nack
export default () => {
  const error = new Error("x");
  error.cause = error;
  throw error;
};
