;; expect: trap
;; Uses a key whose pointer plus length exceeds 4 GiB.
(module
  (import "duebox_v1" "kv_delete" (func $kv_delete (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $kv_delete (i32.const 16) (i32.const -1))))
