// expect: nack
export default () => 2n ** 100_000_000n;
