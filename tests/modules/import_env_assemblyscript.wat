;; A function that the source declares in env.
(module
  (@custom "sourceMappingURL" "~lib/rt/stub.ts")
  (import "env" "fetch" (func (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
