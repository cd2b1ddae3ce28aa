;; expect: out_of_fuel
;; fuel: 1000000
;; Burns its fuel in its start function.
(module
  (func $start (loop $again (br $again)))
  (start $start)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
