//go:build !wasip1

// Package dueboxtest runs a handler natively, in an ordinary test, on a job built by the test:
//
//	run := dueboxtest.Job{Payload: `{"order":42}`, Attempt: 2}.Run(handle)
//	if run.Verdict != duebox.Ack() { t.Error(run.Verdict) }
//
// Runs take turns, so parallel tests may use it.
package dueboxtest

import (
	"slices"
	"sync"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/internal/abi"
)

// A Job is the job that the handler gets. Defaults of empty fields: ID and Topic "test", Attempt 1 of
// MaxAttempts 8, DueAt and Now the same instant of 2025, TTR 30 s.
type Job struct {
	Payload     string
	ID          string
	Topic       string
	Attempt     int
	MaxAttempts int
	DueAt       time.Time
	Now         time.Time
	TTR         time.Duration
	Headers     map[string]string
	Config      map[string]string // strings as they are, other values as JSON text
	MayPush     []string          // topics, or prefixes followed by *, as in sandbox.push; nil allows all
	// Server responds to the handler's requests; with nil every request fails with duebox.ErrHTTPUnavailable. An
	// error is one of duebox.ErrHTTP… or wraps one; any other counts as duebox.ErrHTTPUnavailable.
	Server func(request duebox.Request) (duebox.Response, error)
	Store  map[string]string // the topic's store before the run
	// StoreContended is how many writes of KV.SetIfUnchanged fail, as if another job had written the key.
	StoreContended int
}

// A Run is the outcome of a run.
type Run struct {
	Verdict duebox.Verdict
	Lines   []Line
	// The follow-up jobs in order, and the result to keep; nil unless the handler acked.
	FollowUps []duebox.FollowUp
	Result    []byte
	Requests  []duebox.Request  // requests sent, in order
	Store     map[string]string // the topic's store after the run
}

// A Line is one log line.
type Line struct {
	Level duebox.Level
	Text  string
}

var turn sync.Mutex

// Run runs a handler on the job.
func (j Job) Run(handler duebox.Handler) Run {
	turn.Lock()
	defer turn.Unlock()
	j = j.filled()
	run := Run{}
	abi.Host.Payload = []byte(j.Payload)
	abi.Host.Text = map[abi.Meta]string{abi.MetaID: j.ID, abi.MetaTopic: j.Topic}
	abi.Host.Numbers = map[abi.Meta]int64{
		abi.MetaAttempt:     int64(j.Attempt),
		abi.MetaMaxAttempts: int64(j.MaxAttempts),
		abi.MetaDueAt:       j.DueAt.UnixMilli(),
		abi.MetaNow:         j.Now.UnixMilli(),
		abi.MetaDeadline:    j.Now.Add(j.TTR).UnixMilli(),
		abi.MetaTimeLeft:    j.TTR.Milliseconds(),
	}
	abi.Host.Headers = j.Headers
	abi.Host.Config = j.Config
	abi.Host.OnLog = func(level duebox.Level, text string) {
		run.Lines = append(run.Lines, Line{level, text})
	}
	pushes := pushes{allowed: j.MayPush}
	abi.Host.OnPush = pushes.push
	abi.Host.OnResult = func(bytes []byte) int32 {
		if len(bytes) > 64<<10 {
			return abi.TooLarge
		}
		run.Result = slices.Clone(bytes)
		return 0
	}
	abi.Host.OnHTTP = func(head string, body []byte, _ int32) (int32, map[abi.Part][]byte) {
		request := requestOf(head, body)
		run.Requests = append(run.Requests, request)
		return j.answer(request)
	}
	store := newStore(j.Store, j.StoreContended)
	abi.Host.Store = store
	run.Verdict = handler(duebox.NewJob(len(j.Payload)))
	run.FollowUps, run.Store = pushes.taken, store.values
	if run.Verdict != duebox.Ack() {
		run.FollowUps, run.Result = nil, nil
	}
	return run
}

func (j Job) filled() Job {
	if j.ID == "" {
		j.ID = "test"
	}
	if j.Topic == "" {
		j.Topic = "test"
	}
	if j.Attempt == 0 {
		j.Attempt = 1
	}
	if j.MaxAttempts == 0 {
		j.MaxAttempts = 8
	}
	if j.Now.IsZero() {
		j.Now = time.Date(2025, time.November, 24, 16, 0, 0, 0, time.UTC)
	}
	if j.DueAt.IsZero() {
		j.DueAt = j.Now
	}
	if j.TTR == 0 {
		j.TTR = 30 * time.Second
	}
	return j
}
