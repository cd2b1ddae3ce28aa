// Package abi is the ABI of docs/reference/abi.md as ordinary Go functions: the only place of the SDK that
// knows of pointers and lengths. On other targets than wasm the imports are answered by [Host].
package abi

// A Level is how much a log line matters.
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

// PayloadRead copies a part of the payload and gives the bytes copied.
func PayloadRead(offset uint32, into []byte) int { return int(max(0, payloadRead(offset, into))) }

// MetaInt is a metadata value that is a number.
func MetaInt(key Meta) int64 { return metaInt(key) }

// MetaText is a metadata value as text; empty if the host does not know the key.
func MetaText(key Meta) string {
	value, _ := whole(func(into []byte) int32 { return metaRead(key, into) })
	return value
}

// ConfigRead is a configuration value, and whether there is one of that name.
func ConfigRead(name string) (string, bool) {
	return whole(func(into []byte) int32 { return configRead(name, into) })
}

// RetryAfter sets the wait before the next attempt, in milliseconds.
func RetryAfter(ms int64) { retryAfter(ms) }

// Snooze puts the job off for so many milliseconds.
func Snooze(ms int64) { snooze(ms) }

// Errors of the host that have a meaning of their own.
const (
	NotFound    int32 = -1
	Denied      int32 = -2
	Invalid     int32 = -3
	TooLarge    int32 = -4
	Timeout     int32 = -5
	Unavailable int32 = -6
	Conflict    int32 = -7
)

// A Part is a part of the last answer to HTTPSend.
type Part int32

// The parts, with the host's numbers.
const (
	PartHead Part = iota
	PartBody
	PartError
)

// A Mode says when KVSet writes.
type Mode int32

// The modes, with the host's numbers.
const (
	Always Mode = iota
	IfAbsent
	IfUnchanged
)

// HTTPSend sends a request and waits for its answer; the status, or an error. A timeout of 0 is the
// time that the job has left.
func HTTPSend(head string, body []byte, timeoutMs int32) int32 {
	return httpSend(head, body, timeoutMs)
}

// HTTPRead is a whole part of the last answer. Its length is not known before: it is read in pieces,
// each as large as what is there already.
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

// KVGet is the value of a key, or an error. Others may write it between two calls, so it is asked until
// the value fits; each time takes a longer one, of at most 64 KiB.
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

// KVSet writes a key, for so many milliseconds or, with 0, for good; 0, or an error.
func KVSet(key string, value []byte, ttlMs int64, mode Mode) int32 {
	return kvSet(key, value, ttlMs, mode)
}

// KVDelete forgets a key; 0, or an error.
func KVDelete(key string) int32 { return kvDelete(key) }

// KVAdd adds to a key's number; the new number, and 0 or an error.
func KVAdd(key string, delta int64) (sum int64, code int32) { return kvAdd(key, delta) }

// Result sets what is kept with an acked job; 0, or an error.
func Result(bytes []byte) int32 { return result(bytes) }

// Push asks for a follow-up job; 0, or an error.
func Push(head string, body []byte) int32 { return push(head, body) }

// Reason tells the host why, for people.
func Reason(text string) { reason(text) }

// Log writes one log line.
func Log(level Level, text string) { log(level, text) }

// whole calls an import that answers with a value's whole length, again if the value did not fit.
func whole(read func(into []byte) int32) (string, bool) {
	value := make([]byte, 128)
	length := read(value)
	if length < 0 {
		return "", false
	}
	if int(length) > len(value) {
		// The value cannot change within a job, so the second answer is the first.
		value = make([]byte, length)
		read(value)
	}
	return string(value[:length]), true
}
