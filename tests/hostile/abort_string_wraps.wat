;; expect: trap
;; Aborts with a message whose length claims to be 4 GiB.
(module
  (import "env" "abort" (func $abort (param i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 12) "\ff\ff\ff\ff")
  (func (export "handle") (param i32) (result i32)
    (call $abort (i32.const 16) (i32.const 0) (i32.const 0) (i32.const 0))
    (i32.const 0)))
