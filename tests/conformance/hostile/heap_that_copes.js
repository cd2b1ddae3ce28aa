// expect: ack
// An allocation that fails is an error that can be caught.
export default () => {
  try {
    new Uint8Array(512 * 1024 * 1024);
  } catch {}
};
