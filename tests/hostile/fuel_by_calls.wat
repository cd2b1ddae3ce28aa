;; expect: out_of_fuel
;; fuel: 1000000
;; Has no loop: a function calls itself twice, with little depth.
(module
  (func $tree (param $depth i32)
    (if (local.get $depth)
      (then
        (call $tree (i32.sub (local.get $depth) (i32.const 1)))
        (call $tree (i32.sub (local.get $depth) (i32.const 1))))))
  (func (export "handle") (param i32) (result i32)
    (call $tree (i32.const 60))
    (i32.const 0)))
