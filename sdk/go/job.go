package duebox

import (
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"duebox.dev/duebox/internal/abi"
)

// A Job is one attempt of one job. Everything is read from the host on demand, so a handler pays only for
// what it reads.
type Job struct {
	payloadLen uint32
}

// NewJob returns the host's current job. It is for packages dueboxtest and dueboxhttp.
func NewJob(payloadLen int) *Job { return &Job{payloadLen: uint32(payloadLen)} }

// PayloadLen is the payload's length in bytes.
func (j *Job) PayloadLen() int { return int(j.payloadLen) }

// Payload is the whole payload, copied from the host.
func (j *Job) Payload() []byte {
	payload := make([]byte, j.payloadLen)
	return payload[:abi.PayloadRead(0, payload)]
}

// ReadPayload copies a part of the payload from offset on and returns the number of bytes copied, 0 at or
// past the end. For payloads that need not be in memory at once.
func (j *Job) ReadPayload(offset int, into []byte) int {
	if offset < 0 || offset > int(j.payloadLen) {
		return 0
	}
	return abi.PayloadRead(uint32(offset), into)
}

// Text is the payload as text. It fails if the payload is not UTF-8.
func (j *Job) Text() (string, error) {
	payload := j.Payload()
	if !utf8.Valid(payload) {
		return "", errors.New("the payload is not UTF-8")
	}
	return string(payload), nil
}

// JSON reads the payload into a value, as json.Unmarshal does.
func (j *Job) JSON(into any) error { return json.Unmarshal(j.Payload(), into) }

// ID is the job's id.
func (j *Job) ID() string { return abi.MetaText(abi.MetaID) }

// Topic is the job's topic.
func (j *Job) Topic() string { return abi.MetaText(abi.MetaTopic) }

// Attempt is the number of this attempt, from 1.
func (j *Job) Attempt() int { return int(abi.MetaInt(abi.MetaAttempt)) }

// MaxAttempts is the number of attempts in total.
func (j *Job) MaxAttempts() int { return int(abi.MetaInt(abi.MetaMaxAttempts)) }

// IsLastAttempt reports whether a nack would make the job dead.
func (j *Job) IsLastAttempt() bool { return j.Attempt() >= j.MaxAttempts() }

// DueAt is the job's due time.
func (j *Job) DueAt() time.Time { return time.UnixMilli(abi.MetaInt(abi.MetaDueAt)) }

// Deadline is the end of this attempt's time. The host then stops the handler.
func (j *Job) Deadline() time.Time { return time.UnixMilli(abi.MetaInt(abi.MetaDeadline)) }

// Now is the time on the host's clock, to which DueAt and Deadline refer.
func (j *Job) Now() time.Time { return time.UnixMilli(abi.MetaInt(abi.MetaNow)) }

// TimeLeft is the remaining time of this attempt; zero when it is over.
func (j *Job) TimeLeft() time.Duration {
	return time.Duration(max(0, abi.MetaInt(abi.MetaTimeLeft))) * time.Millisecond
}

// Headers are the job's headers, by name in lower case.
func (j *Job) Headers() map[string]string {
	headers := map[string]string{}
	for line := range strings.Lines(abi.MetaText(abi.MetaHeaders)) {
		if name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); found {
			headers[name] = value
		}
	}
	return headers
}

// Header is a header of the job, and whether it exists.
func (j *Job) Header(name string) (value string, found bool) {
	value, found = j.Headers()[name]
	return value, found
}
