;; expect: trap
;; Reads at the largest address plus offset, 8 GiB, beyond its slot.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.load8_u offset=4294967295 (i32.const -1))))
