;; expect: trap
;; Reads one byte past its memory.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.load8_u (i32.const 65536))))
