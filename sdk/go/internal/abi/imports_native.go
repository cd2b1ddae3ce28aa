//go:build !wasip1

package abi

import (
	"sort"
	"strconv"
)

// Host provides the imports on native targets. Package dueboxtest sets it.
var Host struct {
	Payload []byte
	Text    map[Meta]string
	Numbers map[Meta]int64
	Headers map[string]string
	Config  map[string]string
	OnLog   func(level Level, text string)
	// OnResult and OnPush return 0 or an error code, as the host does.
	OnResult func(bytes []byte) int32
	OnPush   func(head string, body []byte) int32
	// OnHTTP returns a status or an error code, and the parts for HTTPRead.
	OnHTTP func(head string, body []byte, timeoutMs int32) (answer int32, parts map[Part][]byte)
	Store  Store
	parts  map[Part][]byte
}

// A Store is the topic's store on native targets. It returns the host's error codes.
type Store interface {
	Get(key string) (value []byte, code int32)
	Set(key string, value []byte, ttlMs int64, mode Mode) int32
	Delete(key string) int32
	Add(key string, delta int64) (sum int64, code int32)
}

func payloadRead(offset uint32, into []byte) int32 {
	if int(offset) >= len(Host.Payload) {
		return 0
	}
	return int32(copy(into, Host.Payload[offset:]))
}

func metaRead(key Meta, into []byte) int32 {
	if key == MetaHeaders {
		return answer(headerBlock(), into)
	}
	if text, found := Host.Text[key]; found {
		return answer(text, into)
	}
	if number, found := Host.Numbers[key]; found {
		return answer(strconv.FormatInt(number, 10), into)
	}
	return -1
}

func headerBlock() string {
	names := make([]string, 0, len(Host.Headers))
	for name := range Host.Headers {
		names = append(names, name)
	}
	sort.Strings(names)
	block := ""
	for _, name := range names {
		block += name + ": " + Host.Headers[name] + "\n"
	}
	return block
}

func metaInt(key Meta) int64 {
	if number, found := Host.Numbers[key]; found {
		return number
	}
	return -1
}

func configRead(name string, into []byte) int32 {
	value, found := Host.Config[name]
	if !found {
		return -1
	}
	return answer(value, into)
}

// The verdict itself contains the delay and the reason.
func retryAfter(int64) {}
func snooze(int64)     {}
func reason(string)    {}

func result(bytes []byte) int32 {
	if Host.OnResult == nil {
		return 0
	}
	return Host.OnResult(bytes)
}

func push(head string, body []byte) int32 {
	if Host.OnPush == nil {
		return Denied
	}
	return Host.OnPush(head, body)
}

func httpSend(head string, body []byte, timeoutMs int32) int32 {
	if Host.OnHTTP == nil {
		return Unavailable
	}
	answer, parts := Host.OnHTTP(head, body, timeoutMs)
	Host.parts = parts
	return answer
}

func httpRead(part Part, offset uint32, into []byte) int32 {
	bytes := Host.parts[part]
	return int32(copy(into, bytes[min(int(offset), len(bytes)):]))
}

func kvGet(key string, into []byte) int32 {
	if Host.Store == nil {
		return Unavailable
	}
	value, code := Host.Store.Get(key)
	if code != 0 {
		return code
	}
	copy(into, value)
	return int32(len(value))
}

func kvSet(key string, value []byte, ttlMs int64, mode Mode) int32 {
	if Host.Store == nil {
		return Unavailable
	}
	return Host.Store.Set(key, value, ttlMs, mode)
}

func kvDelete(key string) int32 {
	if Host.Store == nil {
		return Unavailable
	}
	return Host.Store.Delete(key)
}

func kvAdd(key string, delta int64) (sum int64, code int32) {
	if Host.Store == nil {
		return 0, Unavailable
	}
	return Host.Store.Add(key, delta)
}

func log(level Level, text string) {
	if Host.OnLog != nil {
		Host.OnLog(level, text)
	}
}

func answer(value string, into []byte) int32 {
	copy(into, value)
	return int32(len(value))
}
