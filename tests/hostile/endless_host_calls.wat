;; expect: timeout
;; Calls the host in an endless loop; each call returns at once.
(module
  (import "duebox_v1" "meta_int" (func $meta_int (param i32) (result i64)))
  (func (export "handle") (param i32) (result i32)
    (loop $again
      (drop (call $meta_int (i32.const 8)))
      (br $again))
    (i32.const 0)))
