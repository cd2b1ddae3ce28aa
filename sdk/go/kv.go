package duebox

import (
	"errors"
	"time"

	"duebox.dev/duebox/internal/abi"
)

// KV is the topic's store (sandbox.kv): small values under keys, for counters, cursors and markers. All jobs
// of the topic share it, whichever daemon runs them.
//
// A key has 1 to 256 bytes, a value at most 64 KiB, and a topic at most 100,000 keys and 64 MiB. A write
// takes effect at once and stays when the job fails, so it may already be there when the job runs again. A
// time to live is 1 ms to ten years, or zero for permanent. A call that returns an error writes nothing.
type KV struct{}

// KV is the topic's store.
func (j *Job) KV() KV { return KV{} }

// Why a call did not succeed.
var (
	ErrKVInvalid     = errors.New("a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is a 64-bit integer")
	ErrKVTooLarge    = errors.New("the value is over 64 KiB, or the topic's store is full")
	ErrKVConflict    = errors.New("other jobs kept changing the key")
	ErrKVUnavailable = errors.New("the topic's store cannot be reached")
)

const updatesMax = 10

// Get is the value of a key, and whether it exists. A number written by Add reads as decimal text.
func (KV) Get(key string) (value []byte, found bool, err error) {
	value, code := abi.KVGet(key)
	found, err = done(code, abi.NotFound)
	return value, found, err
}

// Set sets a key.
func (KV) Set(key string, value []byte, ttl time.Duration) error {
	_, err := done(abi.KVSet(key, value, ttlMs(ttl), abi.Always), 0)
	return err
}

// SetIfAbsent sets a key that has no value, and reports whether it did. Of several jobs that try, one
// succeeds.
func (KV) SetIfAbsent(key string, value []byte, ttl time.Duration) (set bool, err error) {
	return done(abi.KVSet(key, value, ttlMs(ttl), abi.IfAbsent), abi.Conflict)
}

// SetIfUnchanged sets a key that no job, including this one, has written since this job's last Get of it, and
// reports whether it did. Without an earlier Get it writes nothing. The host remembers the last reads of at
// most 1,000 keys.
func (KV) SetIfUnchanged(key string, value []byte, ttl time.Duration) (set bool, err error) {
	return done(abi.KVSet(key, value, ttlMs(ttl), abi.IfUnchanged), abi.Conflict)
}

// Update changes a key's value with change and returns the new value. If another job writes the key
// meanwhile, it starts again, up to ten times, and then fails with ErrKVConflict. So change should have no
// side effects.
func (kv KV) Update(key string, ttl time.Duration, change func(old []byte, found bool) []byte) ([]byte, error) {
	for range updatesMax {
		old, found, err := kv.Get(key)
		if err != nil {
			return nil, err
		}
		value := change(old, found)
		set, err := kv.SetIfUnchanged(key, value, ttl)
		if err != nil {
			return nil, err
		}
		if set {
			return value, nil
		}
	}
	return nil, ErrKVConflict
}

// Delete deletes a key, and reports whether it had a value.
func (KV) Delete(key string) (deleted bool, err error) {
	return done(abi.KVDelete(key), abi.NotFound)
}

// Add adds to a key's number, 0 if it has no value, and returns the new number. The key's time to live does
// not change. Concurrent additions each count once.
func (KV) Add(key string, delta int64) (sum int64, err error) {
	sum, code := abi.KVAdd(key, delta)
	_, err = done(code, 0)
	return sum, err
}

// done converts an error code; the code no means false.
func done(code, no int32) (bool, error) {
	switch code {
	case 0:
		return true, nil
	case no:
		return false, nil
	case abi.Invalid:
		return false, ErrKVInvalid
	case abi.TooLarge:
		return false, ErrKVTooLarge
	}
	return false, ErrKVUnavailable
}

// ttlMs converts a time to live for the host, which takes 0 as permanent, so the minimum is 1. A negative one
// stays negative and is refused.
func ttlMs(ttl time.Duration) int64 {
	if ttl > 0 {
		return max(1, ttl.Milliseconds())
	}
	return int64(ttl)
}
