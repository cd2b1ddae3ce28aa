;; expect: out_of_fuel
;; fuel: 1000000
<<<<<<< HEAD
;; Burns its fuel before the job.
=======
;; Burns its fuel in _initialize, before there is a job.
>>>>>>> main
(module
  (func (export "_initialize") (loop $again (br $again)))
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
