;; expect: out_of_fuel
;; fuel: 1000000
;; Burns its fuel in a loop without end, long before its time is over.
(module
  (func (export "handle") (param i32) (result i32)
    (loop $again (br $again))
    (i32.const 0)))
