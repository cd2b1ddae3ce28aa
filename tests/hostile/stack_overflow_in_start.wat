;; expect: stack_overflow
;; Calls itself without end, before there is a job.
(module
  (func $deeper (call $deeper) (call $deeper))
  (start $deeper)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
