;; expect: trap
(module
  (func (export "handle") (param i32) (result i32)
    (i32.div_s (i32.const 1) (i32.const 0))))
