;; expect: out_of_fuel
;; fuel: 1
;; Needs a few units of fuel and has no loop.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.store (i32.const 0) (i32.const 1))
    (i32.store (i32.const 4) (i32.const 2))
    (i32.store (i32.const 8) (i32.const 3))
    (i32.const 0)))
