;; expect: ack
;; Is refused memory and continues without it, which is not a failure.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.ne (memory.grow (i32.const 60000)) (i32.const -1))))
