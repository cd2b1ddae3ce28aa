// Command relay-go pushes follow-ups as a conformance case asks, with the Go SDK alone. It is separate from
// echo-go because a module that imports push runs only if the topic grants it. The steps are in the header
// "script", as for echo-go; tests/conformance/README.md describes each.
//
// Invariant: relay-rust and relay-as log the same text for every step.
package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"duebox.dev/duebox"
)

func init() { duebox.Handle(handle) }

func main() {}

func handle(job *duebox.Job) duebox.Verdict {
	script, _ := job.Header("script")
	for line := range strings.SplitSeq(script, "; ") {
		step, rest, _ := strings.Cut(line, " ")
		switch step {
		case "push":
			if err := job.Push(followUp(job, rest)); err != nil {
				duebox.Infof("refused: %v", err)
			} else {
				duebox.Infof("pushed")
			}
		case "must":
			if err := job.Push(followUp(job, rest)); err != nil {
				return duebox.Nack(err.Error())
			}
		case "push-many":
			count, rest, _ := strings.Cut(rest, " ")
			pushMany(job, number(count), followUp(job, rest))
		case "ack":
			return duebox.Ack()
		case "nack":
			return duebox.Nack(rest)
		case "drop":
			return duebox.Drop(rest)
		case "snooze":
			return duebox.Snooze(span(rest), "")
		case "panic":
			panic(rest)
		default:
			return duebox.Dropf("unknown step %q", step)
		}
	}
	return duebox.Ack()
}

// pushMany pushes the same follow-up count times, and logs how many were accepted and why the last one was
// refused.
func pushMany(job *duebox.Job, count int64, followUp duebox.FollowUp) {
	taken, why := 0, ""
	for range count {
		if err := job.Push(followUp); err != nil {
			why = ": " + err.Error()
		} else {
			taken++
		}
	}
	duebox.Infof("pushed %d of %d%s", taken, count, why)
}

// followUp parses "topic=T|name=value|…". The value "$" stands for the payload as text.
func followUp(job *duebox.Job, rest string) duebox.FollowUp {
	followUp := duebox.FollowUp{Headers: map[string]string{}}
	for pair := range strings.SplitSeq(rest, "|") {
		name, value, _ := strings.Cut(pair, "=")
		if value == "$" {
			value = string(job.Payload())
		}
		switch name {
		case "topic":
			followUp.Topic = value
		case "payload":
			followUp.Payload = []byte(value)
		case "size":
			followUp.Payload = bytes.Repeat([]byte("x"), int(number(value)))
		case "id":
			followUp.ID = value
		case "delay":
			followUp.Delay = span(value)
		case "at":
			followUp.At = time.UnixMilli(number(value))
		case "ttr":
			followUp.TTR = span(value)
		case "attempts":
			followUp.MaxAttempts = int(number(value))
		case "ttl":
			followUp.TTL = span(value)
		case "priority":
			followUp.Priority = map[string]duebox.Priority{
				"high": duebox.PriorityHigh, "low": duebox.PriorityLow,
			}[value]
		case "key":
			followUp.Key = value
		default:
			followUp.Headers[strings.TrimPrefix(name, "h.")] = value
		}
	}
	return followUp
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("invalid number in the script: %v", err))
	}
	return value
}

func span(text string) time.Duration { return time.Duration(number(text)) * time.Millisecond }
