;; expect: stack_overflow
<<<<<<< HEAD
;; Calls itself endlessly, before the job.
=======
;; Recurses endlessly before there is a job.
>>>>>>> main
(module
  (func $deeper (call $deeper) (call $deeper))
  (start $deeper)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
