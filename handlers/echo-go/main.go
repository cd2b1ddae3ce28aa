// Command echo-go runs the steps of a conformance case with the Go SDK alone. The steps are in the header
// "script", separated by "; "; tests/conformance/README.md describes each.
//
// Invariant: echo-rust and echo-as log the same text for every step.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
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
		if verdict, ends := verdict(step, rest); ends {
			return verdict
		}
		if failed := read(job, step, rest); failed != nil {
			return *failed
		}
	}
	return duebox.Ack()
}

// verdict runs the steps that end the attempt.
func verdict(step, rest string) (verdict duebox.Verdict, ends bool) {
	switch step {
	case "ack":
		return duebox.Ack(), true
	case "nack":
		return duebox.Nack(rest), true
	case "drop":
		return duebox.Drop(rest), true
	case "retry":
		ms, reason, _ := strings.Cut(rest, " ")
		delay, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return duebox.Nack(err.Error()), true
		}
		return duebox.RetryAfter(time.Duration(delay)*time.Millisecond, reason), true
	case "snooze":
		ms, reason, _ := strings.Cut(rest, " ")
		delay, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return duebox.Nack(err.Error()), true
		}
		return duebox.Snooze(time.Duration(delay)*time.Millisecond, reason), true
	case "error":
		return duebox.Nack(errors.New(rest).Error()), true
	case "panic":
		panic(rest)
	}
	return duebox.Verdict{}, false
}

// read runs the steps that read something and log it; a verdict ends the attempt.
func read(job *duebox.Job, step, rest string) *duebox.Verdict {
	switch step {
	case "payload":
		duebox.Infof("payload %d %s", job.PayloadLen(), hex.EncodeToString(job.Payload()))
	case "part":
		var offset, length int
		fmt.Sscan(rest, &offset, &length)
		part := make([]byte, length)
		read := job.ReadPayload(offset, part)
		duebox.Infof("part %d %s", read, hex.EncodeToString(part[:read]))
	case "sum":
		duebox.Infof("sum %d %d", job.PayloadLen(), sum(job.Payload()))
	case "text":
		text, err := job.Text()
		if err != nil {
			return dropped(err)
		}
		duebox.Infof("text %s", text)
	case "syntax":
		var value any
		duebox.Infof("syntax %t", job.JSON(&value) == nil)
	case "json":
		return readJSON(job)
	case "meta", "times", "headers", "header":
		readMetadata(job, step, rest)
	case "config":
		value, found := job.Config(rest)
		show("config", rest, value, found)
	case "int", "float", "bool":
		return readConfig(job, step, rest)
	case "result":
		return failed(job.SetResult([]byte(rest)))
	case "result-size":
		size, err := strconv.Atoi(rest)
		if err != nil {
			return failed(err)
		}
		return failed(job.SetResult(bytes.Repeat([]byte("x"), size)))
	case "log":
		return writeLog(rest)
	case "random":
		first, second := make([]byte, 16), make([]byte, 16)
		rand.Read(first)
		rand.Read(second)
		duebox.Infof("random differs=%t", string(first) != string(second))
	default:
		return dropped(fmt.Errorf("unknown step %q", step))
	}
	return nil
}

// readMetadata runs the steps that log the job's metadata.
func readMetadata(job *duebox.Job, step, rest string) {
	switch step {
	case "meta":
		duebox.Infof("meta id=%s topic=%s attempt=%d max_attempts=%d last=%t due_at=%d",
			job.ID(), job.Topic(), job.Attempt(), job.MaxAttempts(), job.IsLastAttempt(),
			job.DueAt().UnixMilli())
	case "times":
		now, deadline, left := job.Now(), job.Deadline(), job.TimeLeft()
		ordered := !job.DueAt().After(now) && !now.After(deadline)
		duebox.Infof("times ordered=%t left=%t", ordered,
			left > 0 && !now.Add(left).After(deadline.Add(time.Second)))
	case "headers":
		headers := job.Headers()
		delete(headers, "script")
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			duebox.Infof("header %s=%s", name, headers[name])
		}
	case "header":
		value, found := job.Header(rest)
		show("header", rest, value, found)
	}
}

func readJSON(job *duebox.Job) *duebox.Verdict {
	var item struct {
		Name  string   `json:"name"`
		Count int64    `json:"count"`
		Price float64  `json:"price"`
		On    bool     `json:"on"`
		Tags  []string `json:"tags"`
	}
	if err := job.JSON(&item); err != nil {
		return dropped(err)
	}
	duebox.Infof("json name=%s count=%d price=%v on=%t tags=%s",
		item.Name, item.Count, item.Price, item.On, strings.Join(item.Tags, "|"))
	return nil
}

func readConfig(job *duebox.Job, step, name string) *duebox.Verdict {
	_, found := job.Config(name)
	var value any
	var err error
	switch step {
	case "int":
		value, err = job.ConfigInt(name, 0)
	case "float":
		value, err = job.ConfigFloat(name, 0)
	case "bool":
		value, err = job.ConfigBool(name, false)
	}
	if err != nil {
		verdict := duebox.Nack(err.Error())
		return &verdict
	}
	show(step, name, fmt.Sprint(value), found)
	return nil
}

func writeLog(rest string) *duebox.Verdict {
	level, text, _ := strings.Cut(rest, " ")
	switch level {
	case "error":
		duebox.Errorf("%s", text)
	case "warn":
		duebox.Warnf("%s", text)
	case "info":
		duebox.Infof("%s", text)
	case "debug":
		duebox.Debugf("%s", text)
	case "trace":
		duebox.Tracef("%s", text)
	default:
		return dropped(fmt.Errorf("unknown level %q", level))
	}
	return nil
}

func show(step, name, value string, found bool) {
	if found {
		duebox.Infof("%s %s=%s", step, name, value)
	} else {
		duebox.Infof("%s %s absent", step, name)
	}
}

// sum is a checksum that depends on every byte and on their order.
func sum(bytes []byte) uint32 {
	sum := uint32(0)
	for _, value := range bytes {
		sum = sum*31 + uint32(value)
	}
	return sum
}

// failed is a nack with the error's text; nil if there is no error.
func failed(err error) *duebox.Verdict {
	if err == nil {
		return nil
	}
	verdict := duebox.Nack(err.Error())
	return &verdict
}

func dropped(err error) *duebox.Verdict {
	verdict := duebox.Drop(err.Error())
	return &verdict
}
