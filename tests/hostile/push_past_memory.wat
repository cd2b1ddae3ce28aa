;; expect: trap
;; Pushes a job whose body ends one byte past its memory.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: granted.one\n")
  (func (export "handle") (param i32) (result i32)
    (call $push (i32.const 0) (i32.const 19) (i32.const 65530) (i32.const 7))))
