;; expect: ack
;; Polls more subscriptions at once than its memory can contain. It is refused.
(module
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i32.eqz (call $poll (i32.const 0) (i32.const 0) (i32.const -1) (i32.const 16)))))
