// expect: drop
// A thenable that settles more than once: the first time counts.
export default () => ({ then(settle, fail) { settle("drop"); settle("ack"); fail(new Error("no")); throw 1; } });
