;; expect: timeout
;; Loops endlessly in _initialize, before there is a job.
(module
  (func (export "_initialize") (loop $again (br $again)))
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
