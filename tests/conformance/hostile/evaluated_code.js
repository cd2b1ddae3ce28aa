// expect: timeout
export default () => eval("for (;;) new Function('return 1')()");
