;; expect: timeout
;; Spins for ever without a call that the host could answer.
(module
  (func (export "handle") (param i32) (result i32)
    (loop $again (br $again))
    (i32.const 0)))
