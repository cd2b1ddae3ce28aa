package duebox

import (
	"fmt"
	"time"

	"duebox.dev/duebox/internal/abi"
)

// A Verdict is the handler's decision about its job. The zero value is not a verdict; returning it fails the
// job with class bad_verdict.
type Verdict struct {
	kind   kind
	reason string
	wait   time.Duration
	waits  waits
}

// waits is the kind of delay that a nack has.
type waits int32

const (
	backoff waits = iota
	retry
	snooze
)

// The kind of a verdict is the host's number plus one, so that the zero value is invalid.
type kind int32

const (
	ack kind = iota + 1
	nack
	drop
)

// Ack means done: the job is removed.
func Ack() Verdict { return Verdict{kind: ack} }

// Nack means failed: the job runs again after the topic's backoff while it has attempts left, and is dead
// afterwards. The reason is kept with the job; at most 4 KiB.
func Nack(reason string) Verdict { return Verdict{kind: nack, reason: reason} }

// Nackf is [Nack] with a reason formatted as by fmt.Sprintf.
func Nackf(format string, values ...any) Verdict { return Nack(fmt.Sprintf(format, values...)) }

// RetryAfter is a [Nack] whose next attempt is after delay, 0 to 365 days, instead of the topic's backoff. It
// counts as an attempt like any nack.
func RetryAfter(delay time.Duration, reason string) Verdict {
	return Verdict{kind: nack, reason: reason, wait: delay, waits: retry}
}

// Snooze means not now, but not a failure: something the job needs is busy or missing. The job comes back
// after delay, 0 to 365 days, with all its attempts, at most as often as the topic's max_snoozes.
func Snooze(delay time.Duration, reason string) Verdict {
	return Verdict{kind: nack, reason: reason, wait: delay, waits: snooze}
}

// Drop means never again: the job is dead at once. The reason is kept with it; at most 4 KiB.
func Drop(reason string) Verdict { return Verdict{kind: drop, reason: reason} }

// Dropf is [Drop] with a reason formatted as by fmt.Sprintf.
func Dropf(format string, values ...any) Verdict { return Drop(fmt.Sprintf(format, values...)) }

// Reason is the verdict's reason.
func (v Verdict) Reason() string { return v.reason }

// String formats the verdict for logs and tests, as in: nack after 2m0s: still open.
func (v Verdict) String() string {
	text := map[kind]string{ack: "ack", nack: "nack", drop: "drop"}[v.kind]
	if text == "" {
		text = "no verdict"
	}
	switch v.waits {
	case retry:
		text += " after " + v.wait.String()
	case snooze:
		text = "snooze for " + v.wait.String()
	}
	if v.reason != "" {
		text += ": " + v.reason
	}
	return text
}

// settle passes the reason and the delay to the host, and returns the verdict's number.
func (v Verdict) settle() int32 {
	switch v.waits {
	case retry:
		abi.RetryAfter(v.wait.Milliseconds())
	case snooze:
		abi.Snooze(v.wait.Milliseconds())
	}
	if v.reason != "" {
		abi.Reason(v.reason)
	}
	return int32(v.kind) - 1
}
