;; expect: out_of_memory
;; Grows its memory until it is refused, and touches all of it.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (i32.store (i32.shl (i32.sub (memory.size) (i32.const 1)) (i32.const 16)) (i32.const 1))
      (br_if $again (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
    (unreachable)))
