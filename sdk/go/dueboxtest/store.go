//go:build !wasip1

package dueboxtest

import (
	"maps"
	"math"
	"strconv"

	"duebox.dev/duebox/internal/abi"
)

const (
	keyMax   = 256
	valueMax = 64 << 10
	keysMax  = 100_000
)

// store is the topic's store as the host keeps it, by the rules of docs/reference/abi.md. Time stands still in a test,
// so nothing expires.
type store struct {
	values    map[string]string
	seen      map[string]bool // keys that were read and have not changed since
	contended int
}

func newStore(values map[string]string, contended int) *store {
	store := &store{map[string]string{}, map[string]bool{}, contended}
	maps.Copy(store.values, values)
	return store
}

func (s *store) Get(key string) ([]byte, int32) {
	if !isKey(key) {
		return nil, abi.Invalid
	}
	s.seen[key] = true
	value, found := s.values[key]
	if !found {
		return nil, abi.NotFound
	}
	return []byte(value), 0
}

func (s *store) Set(key string, value []byte, ttlMs int64, mode abi.Mode) int32 {
	if !isKey(key) || ttlMs < 0 || ttlMs > delayMaxMs {
		return abi.Invalid
	}
	if len(value) > valueMax {
		return abi.TooLarge
	}
	_, found := s.values[key]
	if mode == abi.IfAbsent && found {
		return abi.Conflict
	}
	if mode == abi.IfUnchanged {
		if s.contended > 0 {
			s.contended--
			return abi.Conflict
		}
		if !s.seen[key] {
			return abi.Conflict
		}
	}
	return s.write(key, string(value))
}

func (s *store) Delete(key string) int32 {
	if !isKey(key) {
		return abi.Invalid
	}
	if _, found := s.values[key]; !found {
		return abi.NotFound
	}
	delete(s.values, key)
	delete(s.seen, key)
	return 0
}

func (s *store) Add(key string, delta int64) (int64, int32) {
	if !isKey(key) {
		return 0, abi.Invalid
	}
	number := int64(0)
	if value, found := s.values[key]; found {
		var err error
		if number, err = strconv.ParseInt(value, 10, 64); err != nil {
			return 0, abi.Invalid
		}
	}
	if delta > 0 && number > math.MaxInt64-delta || delta < 0 && number < math.MinInt64-delta {
		return 0, abi.Invalid
	}
	return number + delta, s.write(key, strconv.FormatInt(number+delta, 10))
}

func (s *store) write(key, value string) int32 {
	if _, found := s.values[key]; !found && len(s.values) == keysMax {
		return abi.TooLarge
	}
	s.values[key] = value
	delete(s.seen, key)
	return 0
}

func isKey(key string) bool { return len(key) >= 1 && len(key) <= keyMax }
