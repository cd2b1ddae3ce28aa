;; expect: trap
;; Sets a retry delay in _initialize, where there is no job.
(module
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))
  (func (export "_initialize") (call $retry_after (i64.const 1000)))
  (func (export "handle") (param i32) (result i32) (i32.const 1)))
