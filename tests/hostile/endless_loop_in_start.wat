;; expect: timeout
;; Loops endlessly in its start function, before there is a job.
(module
  (func $spin (loop $again (br $again)))
  (start $spin)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
