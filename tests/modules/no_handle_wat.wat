;; A module without any export.
(module
  (memory (export "memory") 1)
)
