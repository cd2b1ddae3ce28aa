;; expect: timeout
;; Loops in its start function, before the job.
(module
  (func $spin (loop $again (br $again)))
  (start $spin)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
