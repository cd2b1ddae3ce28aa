;; A handler without a result.
(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32))
)
