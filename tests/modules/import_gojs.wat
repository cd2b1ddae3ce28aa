;; Go built for the browser.
(module
  (@producers (language "Go" "go1.24") (processed-by "Go cmd/compile" "go1.24.3"))
  (import "gojs" "runtime.scheduleTimeoutEvent" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (i32.const 0))
)
