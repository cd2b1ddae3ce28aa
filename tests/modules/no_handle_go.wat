;; A module of Go that registers no handler.
(module
  (@producers (language "Go" "go1.24") (processed-by "Go cmd/compile" "go1.24.3"))
  (memory (export "memory") 1)
  (func (export "_initialize"))
)
