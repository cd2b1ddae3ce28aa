// expect: nack
globalThis.Promise = globalThis.Error = globalThis.Object = undefined;
export default async () => {
  throw 1;
};
