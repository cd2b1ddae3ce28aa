package duebox

import (
	"fmt"
	"time"

	"duebox.dev/duebox/internal/abi"
)

// A Verdict is what becomes of the job. The zero value is no verdict: returning it is a mistake
// that the host calls bad_verdict.
type Verdict struct {
	kind   kind
	reason string
	wait   time.Duration
	waits  waits
}

// waits is which wait of a nack the host is told.
type waits int32

const (
	backoff waits = iota
	retry
	snooze
)

// The kind of a verdict is the host's number plus one, so that the zero value is none of them.
type kind int32

const (
	ack kind = iota + 1
	nack
	drop
)

// Ack means done: the job is gone.
func Ack() Verdict { return Verdict{kind: ack} }

// Nack means failed: the job runs again after the topic's backoff while it has attempts left, then
// it is dead. The reason is for people; it is kept with the job, at most 4 KiB of it.
func Nack(reason string) Verdict { return Verdict{kind: nack, reason: reason} }

// Nackf is [Nack] with a reason formatted as by fmt.Sprintf.
func Nackf(format string, values ...any) Verdict { return Nack(fmt.Sprintf(format, values...)) }

// RetryAfter is a [Nack] whose next attempt is after delay, 0 to 365 days, instead of the topic's
// backoff. It spends an attempt like any nack.
func RetryAfter(delay time.Duration, reason string) Verdict {
	return Verdict{kind: nack, reason: reason, wait: delay, waits: retry}
}

// Snooze means not now, and no failure: what the job needs is taken, or not there yet. It comes back
// after delay, 0 to 365 days, with all its attempts, as often as the topic's max_snoozes allows.
func Snooze(delay time.Duration, reason string) Verdict {
	return Verdict{kind: nack, reason: reason, wait: delay, waits: snooze}
}

// Drop means never again: the job is dead at once. The reason is kept with it, at most 4 KiB.
func Drop(reason string) Verdict { return Verdict{kind: drop, reason: reason} }

// Dropf is [Drop] with a reason formatted as by fmt.Sprintf.
func Dropf(format string, values ...any) Verdict { return Drop(fmt.Sprintf(format, values...)) }

// Reason is what the verdict was given for people.
func (v Verdict) Reason() string { return v.reason }

// String shows the verdict for logs and tests, as in: nack after 2m0s: still open.
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

// settle tells the host the reason and the delay, and gives the number that the verdict is to it.
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
