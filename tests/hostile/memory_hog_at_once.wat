;; expect: out_of_memory
;; Asks for 4 GiB at once.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (br_if 0 (i32.const 1) (i32.ne (memory.grow (i32.const 65535)) (i32.const -1)))
    (unreachable)))
