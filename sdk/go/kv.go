package duebox

import (
	"errors"
	"time"

	"duebox.dev/duebox/internal/abi"
)

// KV is the topic's store (sandbox.kv): small values under keys, for counters, cursors and marks. All
// jobs of the topic share it, whichever runner they run in.
//
// A key is 1 to 256 bytes, a value up to 64 KiB; a topic has at most 100,000 keys and 64 MiB. What is
// written is written at once, and stays when the job fails: it may be there already when a job runs again.
// A time to live is 1 ms to ten years, or zero for good. With an error nothing is written.
type KV struct{}

// KV is the topic's store.
func (j *Job) KV() KV { return KV{} }

// Why a call to the store did nothing.
var (
	ErrKVInvalid     = errors.New("a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is of whole numbers of 64 bits")
	ErrKVTooLarge    = errors.New("the value is over 64 KiB, or the topic's store is full")
	ErrKVConflict    = errors.New("others wrote the key again and again")
	ErrKVUnavailable = errors.New("the topic's store cannot be reached")
)

const updatesMax = 10

// Get is the value of a key, and whether there is one. What Add wrote is decimal text.
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

// SetIfAbsent sets a key that has no value, and tells whether it did. Of several jobs that try, one does.
func (KV) SetIfAbsent(key string, value []byte, ttl time.Duration) (set bool, err error) {
	return done(abi.KVSet(key, value, ttlMs(ttl), abi.IfAbsent), abi.Conflict)
}

// SetIfUnchanged sets a key that nobody, this job included, has written since this job's last Get of it,
// and tells whether it did. A job that did not ask for the key before never writes it so; of more than
// 1,000 keys the host does not remember what was seen.
func (KV) SetIfUnchanged(key string, value []byte, ttl time.Duration) (set bool, err error) {
	return done(abi.KVSet(key, value, ttlMs(ttl), abi.IfUnchanged), abi.Conflict)
}

// Update changes a key's value into what change makes of it, and gives the new one. If others write the
// key meanwhile, it begins anew, up to ten times, then it is ErrKVConflict; so change should do nothing
// else.
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

// Delete forgets a key, and tells whether it had a value.
func (KV) Delete(key string) (deleted bool, err error) {
	return done(abi.KVDelete(key), abi.NotFound)
}

// Add adds to a key's number, which is 0 where there is none, and gives the new number. The key's time to
// live stays as it is. Of several jobs that add, each counts once.
func (KV) Add(key string, delta int64) (sum int64, err error) {
	sum, code := abi.KVAdd(key, delta)
	_, err = done(code, 0)
	return sum, err
}

// done tells an answer that did it from the one that means no and from the errors.
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

// ttlMs is what the host takes, for which 0 is for good; so the shortest is 1. The negative stays so, and
// is refused.
func ttlMs(ttl time.Duration) int64 {
	if ttl > 0 {
		return max(1, ttl.Milliseconds())
	}
	return int64(ttl)
}
