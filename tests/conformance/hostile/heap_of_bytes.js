// expect: out_of_memory
export default () => new Uint8Array(512 * 1024 * 1024).length;
