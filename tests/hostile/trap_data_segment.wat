;; expect: trap
;; Has a data segment that does not fit into its memory.
(module
  (memory (export "memory") 1)
  (data (i32.const 65530) "longer than that")
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
