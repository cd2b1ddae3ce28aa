;; expect: trap
(module
  (func (export "handle") (param i32) (result i32) (unreachable)))
