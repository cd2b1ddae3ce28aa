package duebox

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"duebox.dev/duebox/internal/abi"
)

// A FollowUp is a job to push when the current one is acked. Empty fields have the defaults of the target
// topic.
type FollowUp struct {
	Topic       string            // the topic to push to; the handler's topic must grant it (sandbox.push)
	Payload     []byte            // the payload
	ID          string            // "{id of this job}.{n}" if empty, n from 1; a live job with this id is kept
	Delay       time.Duration     // due this long after the ack, at most ten years
	At          time.Time         // or due at this time; not both
	TTR         time.Duration     // wall-clock limit of one attempt
	MaxAttempts int               // attempts in total
	TTL         time.Duration     // how long after its due time it may wait to start
	Priority    Priority          // its priority among the due jobs of its topic
	Key         string            // jobs with the same key run one after the other, if the topic is configured so
	Headers     map[string]string // headers for its handler; names of a-z 0-9 . _ -
}

// A Priority is the priority of a job among the due jobs of its topic.
type Priority int

// The priorities. The zero value is normal.
const (
	PriorityNormal Priority = iota
	PriorityHigh
	PriorityLow
)

// Why a follow-up or a result is refused. Nothing of it is kept then.
var (
	ErrPushDenied     = errors.New("the handler may not push to this topic; sandbox.push grants it")
	ErrPushInvalid    = errors.New("the follow-up has an invalid name or value")
	ErrPushTooLarge   = errors.New("there are over 100 follow-ups, over 4 MiB of them, or one has a head over 16 KiB")
	ErrResultTooLarge = errors.New("the result is longer than 64 KiB")
)

// Push requests a follow-up job. It is pushed together with the ack of this job; with any other verdict, or
// after a trap, it is discarded. A job may push at most 100 follow-ups and 4 MiB in total.
func (j *Job) Push(followUp FollowUp) error {
	head, err := followUp.head()
	if err != nil {
		return err
	}
	switch abi.Push(head, followUp.Payload) {
	case 0:
		return nil
	case abi.Denied:
		return ErrPushDenied
	case abi.TooLarge:
		return ErrPushTooLarge
	}
	return ErrPushInvalid
}

// SetResult sets the result to keep with the acked job, if the topic keeps done jobs (done_retention). The
// last call counts; a result over 64 KiB is refused.
func (j *Job) SetResult(result []byte) error {
	if abi.Result(result) != 0 {
		return ErrResultTooLarge
	}
	return nil
}

// PushJSON is [Job.Push] with a value as JSON in place of the payload. It fails if json.Marshal does.
func (j *Job) PushJSON(followUp FollowUp, payload any) error {
	bytes, err := json.Marshal(payload)
	if err != nil {
		return err
	}
	followUp.Payload = bytes
	return j.Push(followUp)
}

// SetResultJSON is [Job.SetResult] with a value as JSON. It fails if json.Marshal does.
func (j *Job) SetResultJSON(value any) error {
	bytes, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return j.SetResult(bytes)
}

// head is everything but the payload, as a block for the host.
func (f FollowUp) head() (string, error) {
	head := head{}
	head.line("topic", f.Topic)
	head.text("id", f.ID)
	if f.Delay != 0 {
		head.line("delay-ms", milliseconds(f.Delay))
	}
	if !f.At.IsZero() {
		head.line("due-at-ms", strconv.FormatInt(f.At.UnixMilli(), 10))
	}
	if f.TTR != 0 {
		head.line("ttr-ms", milliseconds(f.TTR))
	}
	if f.MaxAttempts != 0 {
		head.line("max-attempts", strconv.Itoa(f.MaxAttempts))
	}
	if f.TTL != 0 {
		head.line("ttl-ms", milliseconds(f.TTL))
	}
	switch f.Priority {
	case PriorityNormal:
	case PriorityHigh:
		head.line("priority", "high")
	case PriorityLow:
		head.line("priority", "low")
	default:
		head.forged = true
	}
	head.text("key", f.Key)
	names := make([]string, 0, len(f.Headers))
	for name := range f.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		head.line("h."+name, f.Headers[name])
	}
	if head.forged {
		return "", ErrPushInvalid
	}
	return head.block.String(), nil
}

func milliseconds(duration time.Duration) string {
	return strconv.FormatInt(duration.Milliseconds(), 10)
}

// A head is a block that is built line by line; forged is set if a value would have forged a second line.
type head struct {
	block  strings.Builder
	forged bool
}

func (h *head) line(name, value string) {
	foreign := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", r) }
	if strings.ContainsFunc(name, foreign) || strings.ContainsFunc(value, unicode.IsControl) {
		h.forged = true
		return
	}
	h.block.WriteString(name + ": " + value + "\n")
}

func (h *head) text(name, value string) {
	if value != "" {
		h.line(name, value)
	}
}
