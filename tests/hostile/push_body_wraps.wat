;; expect: trap
;; Pushes a job whose payload starts in its memory and ends 4 GiB later.
(module
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "topic: granted.x\n")
  (func (export "handle") (param i32) (result i32)
    (call $push (i32.const 16) (i32.const 17) (i32.const 64) (i32.const -64))))
