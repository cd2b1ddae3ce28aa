;; AssemblyScript with --exportStart _start.
(module
  (@custom "sourceMappingURL" "~lib/rt/stub.ts")
  (memory (export "memory") 1)
  (func (export "_start"))
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
