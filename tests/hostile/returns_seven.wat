;; expect: bad_verdict
(module
  (func (export "handle") (param i32) (result i32) (i32.const 7)))
