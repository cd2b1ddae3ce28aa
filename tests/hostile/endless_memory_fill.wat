;; expect: timeout
;; Fills 32 MiB at a time in a loop. One fill cannot be interrupted; the next one must be.
(module
  (memory (export "memory") 512)
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (memory.fill (i32.const 0) (i32.const 255) (i32.const 33554432))
      (br $again))
    (i32.const 0)))
