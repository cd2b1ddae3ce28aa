;; expect: stack_overflow
;; Recurses endlessly and calls the host at every depth, so that the host runs on the remaining stack.
(module
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "duebox_v1" "config_read" (func $config_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $deeper (param i32) (result i32)
    (call $random (i32.const 0) (i32.const 64))
    (drop (call $config_read (i32.const 100) (i32.const 3) (i32.const 200) (i32.const 100)))
    (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func (export "handle") (param i32) (result i32) (call $deeper (i32.const 0))))
