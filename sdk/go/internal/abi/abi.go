// Package abi provides the ABI of docs/reference/abi.md as ordinary Go functions. It is the only package of the SDK that
// handles pointers and lengths. On targets other than wasm, [Host] provides the imports.
package abi

// A Level is the severity of a log line.
type Level int32

// The levels, with the host's numbers.
const (
	LevelError Level = iota
	LevelWarn
	LevelInfo
	LevelDebug
	LevelTrace
)

// A Meta is a key of the job's metadata.
type Meta int32

// The metadata keys, with the host's numbers. Times are unix milliseconds.
const (
	MetaID Meta = iota + 1
	MetaTopic
	MetaAttempt
	MetaMaxAttempts
	MetaDueAt
	MetaDeadline
	MetaHeaders
	MetaNow
	MetaTimeLeft
)

// PayloadRead copies a part of the payload and returns the number of bytes copied.
func PayloadRead(offset uint32, into []byte) int { return int(max(0, payloadRead(offset, into))) }

// MetaInt is a metadata value that is an integer.
func MetaInt(key Meta) int64 { return metaInt(key) }

// MetaText is a metadata value as text; empty if the host does not know the key.
func MetaText(key Meta) string {
	value, _ := whole(func(into []byte) int32 { return metaRead(key, into) })
	return value
}

// ConfigRead is a configuration value, and whether it exists.
func ConfigRead(name string) (string, bool) {
	return whole(func(into []byte) int32 { return configRead(name, into) })
}

// RetryAfter sets the delay before the next attempt, in milliseconds.
func RetryAfter(ms int64) { retryAfter(ms) }

// Snooze puts the job off by this many milliseconds.
func Snooze(ms int64) { snooze(ms) }

// Error codes of the host that callers distinguish.
const (
	NotFound    int32 = -1
	Denied      int32 = -2
	Invalid     int32 = -3
	TooLarge    int32 = -4
	Timeout     int32 = -5
	Unavailable int32 = -6
	Conflict    int32 = -7
)

// A Part is a part of the last response to HTTPSend.
type Part int32

// The parts, with the host's numbers.
const (
	PartHead Part = iota
	PartBody
	PartError
)

// A Mode is the condition under which KVSet writes.
type Mode int32

// The modes, with the host's numbers.
const (
	Always Mode = iota
	IfAbsent
	IfUnchanged
)

// HTTPSend sends a request and waits for its response; it returns the status or an error code. A timeout of 0
// means the job's remaining time.
func HTTPSend(head string, body []byte, timeoutMs int32) int32 {
	return httpSend(head, body, timeoutMs)
}

// HTTPRead reads a whole part of the last response. Its length is unknown, so it is read in pieces, each as
// large as everything read before it.
func HTTPRead(part Part) []byte {
	bytes := make([]byte, 1<<10)
	end := 0
	for {
		end += int(max(0, httpRead(part, uint32(end), bytes[end:])))
		if end < len(bytes) {
			return bytes[:end]
		}
		bytes = append(bytes, make([]byte, len(bytes))...)
	}
}

// KVGet is the value of a key, or an error code. Another job may write the key between two calls, so the read
// repeats with a longer buffer until the value, of at most 64 KiB, fits.
func KVGet(key string) (value []byte, code int32) {
	value = make([]byte, 512)
	for {
		length := kvGet(key, value)
		if length < 0 {
			return nil, length
		}
		if int(length) <= len(value) {
			return value[:length], 0
		}
		value = make([]byte, length)
	}
}

// KVSet writes a key, for ttlMs milliseconds or, with 0, permanently; it returns 0 or an error code.
func KVSet(key string, value []byte, ttlMs int64, mode Mode) int32 {
	return kvSet(key, value, ttlMs, mode)
}

// KVDelete deletes a key; it returns 0 or an error code.
func KVDelete(key string) int32 { return kvDelete(key) }

// KVAdd adds to a key's number; it returns the new number, and 0 or an error code.
func KVAdd(key string, delta int64) (sum int64, code int32) { return kvAdd(key, delta) }

// Result sets the result to keep with an acked job; it returns 0 or an error code.
func Result(bytes []byte) int32 { return result(bytes) }

// Push requests a follow-up job; it returns 0 or an error code.
func Push(head string, body []byte) int32 { return push(head, body) }

// Reason sets the reason of the verdict.
func Reason(text string) { reason(text) }

// Log writes one log line.
func Log(level Level, text string) { log(level, text) }

// whole calls an import that returns a value's full length, a second time if the value did not fit.
func whole(read func(into []byte) int32) (string, bool) {
	value := make([]byte, 128)
	length := read(value)
	if length < 0 {
		return "", false
	}
	if int(length) > len(value) {
		// The value cannot change within a job, so the second length equals the first.
		value = make([]byte, length)
		read(value)
	}
	return string(value[:length]), true
}
