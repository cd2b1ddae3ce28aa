//go:build wasip1

package abi

import (
	"runtime"
	"unsafe"
)

// Each import takes the pointer and length of a slice or string that is kept alive during the call.

//go:wasmimport duebox_v1 payload_read
func hostPayloadRead(dst unsafe.Pointer, offset, length uint32) int32

//go:wasmimport duebox_v1 meta_read
func hostMetaRead(key int32, dst unsafe.Pointer, capacity uint32) int32

//go:wasmimport duebox_v1 meta_int
func hostMetaInt(key int32) int64

//go:wasmimport duebox_v1 config_read
func hostConfigRead(name unsafe.Pointer, nameLen uint32, dst unsafe.Pointer, capacity uint32) int32

//go:wasmimport duebox_v1 retry_after
func hostRetryAfter(ms int64)

//go:wasmimport duebox_v1 snooze
func hostSnooze(ms int64)

//go:wasmimport duebox_v1 result
func hostResult(bytes unsafe.Pointer, length uint32) int32

//go:wasmimport duebox_v1 push
func hostPush(head unsafe.Pointer, headLen uint32, body unsafe.Pointer, bodyLen uint32) int32

//go:wasmimport duebox_v1 http_send
func hostHTTPSend(head unsafe.Pointer, headLen uint32, body unsafe.Pointer, bodyLen uint32, timeoutMs int32) int32

//go:wasmimport duebox_v1 http_read
func hostHTTPRead(part int32, dst unsafe.Pointer, offset, length uint32) int32

//go:wasmimport duebox_v1 kv_get
func hostKVGet(key unsafe.Pointer, keyLen uint32, dst unsafe.Pointer, capacity uint32) int32

//go:wasmimport duebox_v1 kv_set
func hostKVSet(key unsafe.Pointer, keyLen uint32, value unsafe.Pointer, valueLen uint32, ttlMs int64, mode int32) int32

//go:wasmimport duebox_v1 kv_delete
func hostKVDelete(key unsafe.Pointer, keyLen uint32) int32

//go:wasmimport duebox_v1 kv_add
func hostKVAdd(key unsafe.Pointer, keyLen uint32, delta int64, dst unsafe.Pointer) int32

//go:wasmimport duebox_v1 reason
func hostReason(text unsafe.Pointer, length uint32)

//go:wasmimport duebox_v1 log
func hostLog(level int32, text unsafe.Pointer, length uint32)

func payloadRead(offset uint32, into []byte) int32 {
	read := hostPayloadRead(unsafe.Pointer(unsafe.SliceData(into)), offset, uint32(len(into)))
	runtime.KeepAlive(into)
	return read
}

func metaRead(key Meta, into []byte) int32 {
	length := hostMetaRead(int32(key), unsafe.Pointer(unsafe.SliceData(into)), uint32(len(into)))
	runtime.KeepAlive(into)
	return length
}

func metaInt(key Meta) int64 { return hostMetaInt(int32(key)) }

func configRead(name string, into []byte) int32 {
	length := hostConfigRead(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)),
		unsafe.Pointer(unsafe.SliceData(into)), uint32(len(into)))
	runtime.KeepAlive(name)
	runtime.KeepAlive(into)
	return length
}

func retryAfter(ms int64) { hostRetryAfter(ms) }

func snooze(ms int64) { hostSnooze(ms) }

func result(bytes []byte) int32 {
	code := hostResult(unsafe.Pointer(unsafe.SliceData(bytes)), uint32(len(bytes)))
	runtime.KeepAlive(bytes)
	return code
}

func push(head string, body []byte) int32 {
	code := hostPush(unsafe.Pointer(unsafe.StringData(head)), uint32(len(head)),
		unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)))
	runtime.KeepAlive(head)
	runtime.KeepAlive(body)
	return code
}

func httpSend(head string, body []byte, timeoutMs int32) int32 {
	code := hostHTTPSend(unsafe.Pointer(unsafe.StringData(head)), uint32(len(head)),
		unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)), timeoutMs)
	runtime.KeepAlive(head)
	runtime.KeepAlive(body)
	return code
}

func httpRead(part Part, offset uint32, into []byte) int32 {
	read := hostHTTPRead(int32(part), unsafe.Pointer(unsafe.SliceData(into)), offset, uint32(len(into)))
	runtime.KeepAlive(into)
	return read
}

func kvGet(key string, into []byte) int32 {
	length := hostKVGet(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)),
		unsafe.Pointer(unsafe.SliceData(into)), uint32(len(into)))
	runtime.KeepAlive(key)
	runtime.KeepAlive(into)
	return length
}

func kvSet(key string, value []byte, ttlMs int64, mode Mode) int32 {
	code := hostKVSet(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)),
		unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)), ttlMs, int32(mode))
	runtime.KeepAlive(key)
	runtime.KeepAlive(value)
	return code
}

func kvDelete(key string) int32 {
	code := hostKVDelete(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)))
	runtime.KeepAlive(key)
	return code
}

func kvAdd(key string, delta int64) (sum int64, code int32) {
	// The host writes the number in little-endian order, which is how wasm memory stores it.
	code = hostKVAdd(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)), delta, unsafe.Pointer(&sum))
	runtime.KeepAlive(key)
	return sum, code
}

func reason(text string) {
	hostReason(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
	runtime.KeepAlive(text)
}

func log(level Level, text string) {
	hostLog(int32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
	runtime.KeepAlive(text)
}
