;; expect: trap
(module
  (func $fail (unreachable))
  (start $fail)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
