;; expect: stack_overflow
;; Calls itself endlessly, before the job.
(module
  (func $deeper (call $deeper) (call $deeper))
  (start $deeper)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
