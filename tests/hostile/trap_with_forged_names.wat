;; expect: trap
;; Traps in functions whose names forge trace lines and contain terminal controls.
(module
  (func $a (@name "\1b[2J\nverdict  ack\r\n  0: handle") (result i32) (unreachable))
  (func (@name "_ZN999999999999999999999E") (result i32) (call $a))
  (func (@name "_RNvB_1aB_B_B_B_") (export "handle") (param i32) (result i32) (call 1)))
