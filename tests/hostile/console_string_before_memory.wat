;; expect: trap
;; Writes a string to the console whose length field would be before the first byte of memory.
(module
  (import "env" "console.error" (func $console (param i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $console (i32.const 2))
    (i32.const 0)))
