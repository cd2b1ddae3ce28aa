;; expect: trap
;; Pushes a job whose head starts at the last address and wraps around.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $push (i32.const -1) (i32.const 20) (i32.const 0) (i32.const 0))))
