;; expect: trap
;; Reads a configuration value whose name wraps around the end of 4 GiB.
(module
  (import "duebox_v1" "config_read" (func $config_read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $config_read (i32.const -1) (i32.const 2) (i32.const 0) (i32.const 0))))
