;; expect: trap
;; Reads a response in its start function, where there is no job.
(module
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (start $early)
  (func $early
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))))
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
