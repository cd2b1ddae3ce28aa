package duebox

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"duebox.dev/duebox/internal/abi"
)

// A FollowUp is a job to push when the one in hand is acked. Fields left out are the topic's own.
type FollowUp struct {
	Topic       string            // where to; the handler's topic must grant it (sandbox.push)
	Payload     []byte            // what its handler gets
	ID          string            // "{id of this job}.{n}" if empty, n from 1; one that is alive is kept
	Delay       time.Duration     // falls due this long after the ack, up to ten years
	At          time.Time         // or at this time; not both
	TTR         time.Duration     // wall clock of one attempt
	MaxAttempts int               // attempts in all
	TTL         time.Duration     // how long after its due time it may wait for its start
	Priority    Priority          // its rank among the due jobs of its topic
	Key         string            // jobs of one key run one after the other, where the topic says so
	Headers     map[string]string // handed to its handler; names of a-z 0-9 . _ -
}

// A Priority is the rank of a job among the due jobs of its topic.
type Priority int

// The priorities. The zero value is normal.
const (
	PriorityNormal Priority = iota
	PriorityHigh
	PriorityLow
)

// Why a follow-up or a result is not taken. Nothing of it is kept then.
var (
	ErrPushDenied     = errors.New("the handler may not push to this topic; sandbox.push grants it")
	ErrPushInvalid    = errors.New("the follow-up has a name or a value that no job can have")
	ErrPushTooLarge   = errors.New("the follow-ups are over 100, over 4 MiB together, or one has a head over 16 KiB")
	ErrResultTooLarge = errors.New("the result is longer than 64 KiB")
)

// Push asks for a follow-up job, which is pushed together with the ack of this one, or not at all:
// never lost, never doubled. With any other verdict, or a trap, it is dropped. At most 100 a job are
// taken, and 4 MiB together.
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

// SetResult sets what is kept with the job when it is acked, where the topic keeps done jobs
// (done_retention). The last one counts; one over 64 KiB is refused.
func (j *Job) SetResult(result []byte) error {
	if abi.Result(result) != 0 {
		return ErrResultTooLarge
	}
	return nil
}

// head is all but the payload, as the block that the host reads.
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

// A head is a block that grows line by line; forged if a value could have made two lines of one.
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
