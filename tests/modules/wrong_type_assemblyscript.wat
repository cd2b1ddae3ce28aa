;; A handler of AssemblyScript whose result is a number with a fraction.
(module
  (@custom "sourceMappingURL" "~lib/rt/stub.ts")
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result f64) (f64.const 0))
)
