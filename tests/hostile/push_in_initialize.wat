;; expect: trap
;; Pushes a job in _initialize, where there is no job to commit it.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: granted.one\n")
  (func (export "_initialize")
    (drop (call $push (i32.const 0) (i32.const 19) (i32.const 0) (i32.const 0))))
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
