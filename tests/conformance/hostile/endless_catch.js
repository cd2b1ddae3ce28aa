// expect: timeout
// It catches every error, also that of the stack.
export default function handle() {
  for (;;) {
    try {
      handle();
    } catch {}
  }
}
