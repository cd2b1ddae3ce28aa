;; expect: stack_overflow
;; Recurses endlessly before there is a job.
(module
  (func $deeper (call $deeper) (call $deeper))
  (start $deeper)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
