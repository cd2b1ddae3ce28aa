;; expect: out_of_fuel
;; fuel: 1000000
;; Burns its fuel in an endless loop, long before its ttr.
(module
  (func (export "handle") (param i32) (result i32)
    (loop $again (br $again))
    (i32.const 0)))
