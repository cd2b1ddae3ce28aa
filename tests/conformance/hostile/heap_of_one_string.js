// expect: out_of_memory
export default () => "x".repeat(2 ** 29).length;
