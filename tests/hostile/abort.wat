;; expect: trap
;; Calls AssemblyScript's abort with invalid string pointers.
(module
  (import "env" "abort" (func $abort (param i32 i32 i32 i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $abort (i32.const -2) (i32.const 2) (i32.const 1) (i32.const 1))
    (i32.const 0)))
