;; AssemblyScript with importMemory.
(module
  (@custom "sourceMappingURL" "~lib/rt/stub.ts")
  (import "env" "memory" (memory 1))
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
