;; expect: trap
;; Reads the job in its start function, where there is no job.
(module
  (import "duebox_v1" "meta_int" (func $meta_int (param i32) (result i64)))
  (func $early (drop (call $meta_int (i32.const 3))))
  (start $early)
  (func (export "handle") (param i32) (result i32) (i32.const 0)))
