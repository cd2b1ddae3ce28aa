;; expect: timeout
;; Loops endlessly without a host call.
(module
  (func (export "handle") (param i32) (result i32)
    (loop $again (br $again))
    (i32.const 0)))
