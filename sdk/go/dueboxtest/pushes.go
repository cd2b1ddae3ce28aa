//go:build !wasip1

package dueboxtest

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/internal/abi"
)

const (
	countMax    = 100
	bytesMax    = 4 << 20
	headMax     = 16 << 10
	delayMaxMs  = 10 * 365 * 86_400_000
	attemptsMax = 999_999
)

// pushes accepts or refuses pushes by the rules of docs/reference/abi.md, so that a test refuses what the daemon
// refuses.
type pushes struct {
	allowed []string
	taken   []duebox.FollowUp
	bytes   int
}

func (p *pushes) push(head string, body []byte) int32 {
	if len(head) > headMax {
		return abi.TooLarge
	}
	followUp, fine := read(head)
	if !fine {
		return abi.Invalid
	}
	grants := func(pattern string) bool { return covers(pattern, followUp.Topic) }
	if p.allowed != nil && !slices.ContainsFunc(p.allowed, grants) {
		return abi.Denied
	}
	bytesAll := p.bytes + len(head) + len(body)
	if len(p.taken) == countMax || bytesAll > bytesMax {
		return abi.TooLarge
	}
	followUp.Payload = bytes.Clone(body)
	p.bytes, p.taken = bytesAll, append(p.taken, followUp)
	return 0
}

func covers(pattern, topic string) bool {
	if prefix, found := strings.CutSuffix(pattern, "*"); found {
		return strings.HasPrefix(topic, prefix)
	}
	return topic == pattern
}

// read parses a follow-up from its head. The SDK writes each line once and with a known name, so only the
// ranges are checked.
func read(head string) (followUp duebox.FollowUp, fine bool) {
	fine, due := true, 0
	number := func(text string, least, most int64) int64 {
		value, err := strconv.ParseInt(text, 10, 64)
		fine = fine && err == nil && least <= value && value <= most
		return value
	}
	span := func(text string, least int64) time.Duration {
		return time.Duration(number(text, least, delayMaxMs)) * time.Millisecond
	}
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "topic":
			followUp.Topic = value
			fine = fine && isTopic(value)
		case "id":
			followUp.ID = value
			fine = fine && len(value) <= 256 && !strings.ContainsFunc(value, isNotVisible)
		case "delay-ms":
			followUp.Delay, due = span(value, 0), due+1
		case "due-at-ms":
			followUp.At, due = time.UnixMilli(number(value, 1e11, 1e14)), due+1
		case "ttr-ms":
			followUp.TTR = span(value, 1)
		case "ttl-ms":
			followUp.TTL = span(value, 0)
		case "max-attempts":
			followUp.MaxAttempts = int(number(value, 1, attemptsMax))
		case "priority":
			followUp.Priority = map[string]duebox.Priority{"high": duebox.PriorityHigh, "low": duebox.PriorityLow}[value]
		case "key":
			followUp.Key = value
			fine = fine && len(value) <= 256
		default:
			header := strings.TrimPrefix(name, "h.")
			fine = fine && 0 < len(header) && len(header) <= 62
			if followUp.Headers == nil {
				followUp.Headers = map[string]string{}
			}
			followUp.Headers[header] = value
		}
	}
	return followUp, fine && due <= 1
}

func isTopic(name string) bool {
	foreign := func(r rune) bool {
		return isNotVisible(r) || !strings.ContainsRune("._-", r) &&
			(r < '0' || '9' < r) && (r < 'A' || 'Z' < r) && (r < 'a' || 'z' < r)
	}
	return 0 < len(name) && len(name) <= 128 && !strings.ContainsFunc(name, foreign)
}

func isNotVisible(r rune) bool { return r < '!' || '~' < r }
