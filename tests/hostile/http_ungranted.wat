;; expect: ack
<<<<<<< HEAD
;; Calls servers that are not granted: similar names, its own machine in many spellings, and the
;; metadata address of a cloud. Then sends malformed heads and reads missing parts of a response.
=======
;; Calls servers that are not granted: names similar to the grant, its own machine in many notations, and a
;; cloud's metadata service. Then sends malformed heads, and reads parts that no response has.
>>>>>>> main
(module
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "GET http://other.test/\n")
  (data (i32.const 64) "GET https://silent.test/\n")
  (data (i32.const 128) "GET http://silent.test:8080/\n")
  (data (i32.const 192) "GET http://127.0.0.1/\n")
  (data (i32.const 256) "GET http://2130706433/\n")
  (data (i32.const 320) "GET http://[::ffff:7f00:1]/\n")
  (data (i32.const 384) "GET http://169.254.169.254/\n")
  (data (i32.const 448) "GET file:///etc/passwd\n")
  (data (i32.const 512) "GET http://silent.test@127.0.0.1/\n")
  (data (i32.const 576) "GET http://silent.test/\nhost: a\n")
  (data (i32.const 640) "GET http://silent.test/")
  (data (i32.const 704) "\ff http://silent.test/\n")
  (func $refused (param $head i32) (param $len i32) (param $code i32)
    (if (i32.ne
          (call $send (local.get $head) (local.get $len) (i32.const 0) (i32.const 0) (i32.const 0))
          (local.get $code))
      (then (unreachable)))
<<<<<<< HEAD
    ;; There is an error text, but neither a head nor a body.
=======
    ;; There is an error text, and neither a head nor a body.
>>>>>>> main
    (if (i32.eqz (call $read (i32.const 2) (i32.const 4096) (i32.const 0) (i32.const 4096)))
      (then (unreachable)))
    (if (call $read (i32.const 0) (i32.const 4096) (i32.const 0) (i32.const 4096))
      (then (unreachable)))
    (if (call $read (i32.const 1) (i32.const 4096) (i32.const 0) (i32.const 4096))
      (then (unreachable))))
  (func (export "handle") (param i32) (result i32)
    ;; Nothing was sent yet.
    (if (call $read (i32.const 2) (i32.const 4096) (i32.const 0) (i32.const 4096))
      (then (unreachable)))
    (call $refused (i32.const 0) (i32.const 23) (i32.const -2))
    (call $refused (i32.const 64) (i32.const 25) (i32.const -2))
    (call $refused (i32.const 128) (i32.const 29) (i32.const -2))
    (call $refused (i32.const 192) (i32.const 22) (i32.const -2))
    (call $refused (i32.const 256) (i32.const 23) (i32.const -2))
    (call $refused (i32.const 320) (i32.const 28) (i32.const -2))
    (call $refused (i32.const 384) (i32.const 28) (i32.const -2))
    (call $refused (i32.const 448) (i32.const 23) (i32.const -3))
    (call $refused (i32.const 512) (i32.const 34) (i32.const -3))
    (call $refused (i32.const 576) (i32.const 32) (i32.const -3))
    (call $refused (i32.const 640) (i32.const 23) (i32.const -3))
    (call $refused (i32.const 704) (i32.const 25) (i32.const -3))
    (call $refused (i32.const 0) (i32.const 0) (i32.const -3))
<<<<<<< HEAD
    ;; An unterminated head, as long as memory.
=======
    ;; A head as long as memory without an end.
>>>>>>> main
    (call $refused (i32.const 0) (i32.const 65536) (i32.const -4))
    (if (i32.ne (call $read (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 9)) (i32.const -1))
      (then (unreachable)))
    (if (i32.ne (call $read (i32.const -1) (i32.const 0) (i32.const 0) (i32.const 9)) (i32.const -1))
      (then (unreachable)))
    (i32.const 0)))
