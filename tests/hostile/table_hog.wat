;; expect: trap
;; Grows its table until it is refused, which is a trap and not out_of_memory.
(module
  (table $table 1 funcref)
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (br_if $again
        (i32.ne (table.grow $table (ref.null func) (i32.const 10000)) (i32.const -1))))
    (unreachable)))
