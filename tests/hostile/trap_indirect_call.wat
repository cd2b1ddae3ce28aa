;; expect: trap
;; Calls a function through a table with the wrong type.
(module
  (type $none (func))
  (table 2 funcref)
  (elem (i32.const 0) $number)
  (func $number (result i32) (i32.const 1))
  (func (export "handle") (param i32) (result i32)
    (call_indirect (type $none) (i32.const 0))
    (i32.const 0)))
