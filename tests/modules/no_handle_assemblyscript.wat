;; A module of AssemblyScript that exports its handler under another name.
(module
  (@custom "sourceMappingURL" "~lib/rt/stub.ts")
  (memory (export "memory") 1)
  (func (export "handleJob") (param i32) (result i32) (i32.const 0))
)
