;; expect: stack_overflow
;; Recurses endlessly.
(module
  (func $deeper (param i32) (result i32)
    (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func (export "handle") (param i32) (result i32) (call $deeper (i32.const 0))))
