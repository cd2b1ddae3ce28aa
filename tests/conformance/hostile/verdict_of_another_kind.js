// expect: bad_verdict
export default () => ({ kind: "ack", reason: "", wait: -1 });
