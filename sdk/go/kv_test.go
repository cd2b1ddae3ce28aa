package duebox_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

// must fails the test unless the store returns the wanted value.
func must[T comparable](t *testing.T, what string, wanted T) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != wanted {
			t.Errorf("%s: %v %v, want %v", what, got, err, wanted)
		}
	}
}

func TestAStoreKeepsValuesAndNumbers(t *testing.T) {
	run := dueboxtest.Job{Store: map[string]string{"old": "1", "word": "x"}}.Run(func(job *duebox.Job) duebox.Verdict {
		kv := job.KV()
		if value, found, err := kv.Get("old"); err != nil || !found || string(value) != "1" {
			t.Error(value, found, err)
		}
		if _, found, err := kv.Get("none"); err != nil || found {
			t.Error(found, err)
		}
		if err := kv.Set("new", []byte(strings.Repeat("x", 64<<10)), time.Microsecond); err != nil {
			t.Error(err)
		}
		if value, _, err := kv.Get("new"); err != nil || len(value) != 64<<10 {
			t.Error(len(value), err)
		}
		must(t, "taken", false)(kv.SetIfAbsent("new", nil, 0))
		must(t, "free", true)(kv.SetIfAbsent("mark", nil, 0))
		must(t, "delete", true)(kv.Delete("new"))
		must(t, "delete again", false)(kv.Delete("new"))
		must(t, "add", int64(-2))(kv.Add("old", -3))
		must(t, "add to a missing key", int64(5))(kv.Add("count", 5))
		for _, err := range []error{
			second(kv.Add("word", 1)),
			second(kv.Add("count", math.MaxInt64)),
			second(kv.Add("", 1)),
			second(kv.Delete("")),
			second(kv.SetIfAbsent("", nil, 0)),
			kv.Set(strings.Repeat("k", 257), nil, 0),
			kv.Set("k", nil, 100_000*time.Hour),
			kv.Set("k", nil, -time.Second),
		} {
			if !errors.Is(err, duebox.ErrKVInvalid) {
				t.Error(err)
			}
		}
		if err := kv.Set("k", make([]byte, 64<<10+1), 0); !errors.Is(err, duebox.ErrKVTooLarge) {
			t.Error(err)
		}
		return duebox.Ack()
	})
	if len(run.Store) != 4 || run.Store["old"] != "-2" || run.Store["count"] != "5" {
		t.Error(run.Store)
	}
}

func second[T any](_ T, err error) error { return err }

func TestAValueIsWrittenOnlyIfItIsUnchangedSinceItWasRead(t *testing.T) {
	dueboxtest.Job{Store: map[string]string{"a": "1"}}.Run(func(job *duebox.Job) duebox.Verdict {
		kv := job.KV()
		must(t, "never read", false)(kv.SetIfUnchanged("a", nil, 0))
		kv.Get("a")
		must(t, "unchanged", true)(kv.SetIfUnchanged("a", nil, 0))
		must(t, "written since by this job", false)(kv.SetIfUnchanged("a", nil, 0))
		kv.Get("b")
		must(t, "still absent", true)(kv.SetIfUnchanged("b", nil, 0))
		return duebox.Ack()
	})
}

func TestAnUpdateRetriesOnConflictALimitedNumberOfTimes(t *testing.T) {
	for contended, wanted := range map[int]struct {
		tries int
		err   error
	}{0: {1, nil}, 9: {10, nil}, 10: {10, duebox.ErrKVConflict}} {
		job := dueboxtest.Job{Store: map[string]string{"cursor": "7"}, StoreContended: contended}
		job.Run(func(job *duebox.Job) duebox.Verdict {
			tries := 0
			value, err := job.KV().Update("cursor", 0, func(old []byte, found bool) []byte {
				tries++
				return append(old, '+')
			})
			if tries != wanted.tries || !errors.Is(err, wanted.err) || err == nil && string(value) != "7+" {
				t.Error(contended, tries, string(value), err)
			}
			return duebox.Ack()
		})
	}
}
