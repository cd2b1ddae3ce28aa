;; expect: ack
;; Is refused memory and gets by without: no failure.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.ne (memory.grow (i32.const 60000)) (i32.const -1))))
