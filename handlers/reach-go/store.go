package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"duebox.dev/duebox"
)

// storeStep runs a step that uses the topic's store; it returns false for any other step.
func storeStep(job *duebox.Job, step, rest string) bool {
	words := strings.SplitN(rest, " ", 3)
	key, value, ttl := words[0], []byte{}, time.Duration(0)
	if key == "$" {
		key = string(job.Payload())
	}
	if len(words) > 1 {
		value = []byte(words[1])
		if size, found := strings.CutPrefix(words[1], "*"); found {
			value = bytes.Repeat([]byte("x"), int(number(size)))
		}
	}
	if len(words) > 2 {
		ttl = span(words[2])
	}
	text, err, known := runStep(job.KV(), step, key, value, ttl)
	switch {
	case !known:
		return false
	case err != nil:
		duebox.Infof("refused: %v", err)
	default:
		duebox.Infof("%s", text)
	}
	return true
}

func runStep(kv duebox.KV, step, key string, value []byte, ttl time.Duration) (text string, err error, known bool) {
	done := false
	switch step {
	case "get":
		value, found, err := kv.Get(key)
		switch {
		case !found:
			text = key + " absent"
		case len(value) > 99:
			text = fmt.Sprintf("%s has %d bytes", key, len(value))
		default:
			text = fmt.Sprintf("%s=%s", key, value)
		}
		return text, err, true
	case "set":
		return "written", kv.Set(key, value, ttl), true
	case "absent":
		done, err = kv.SetIfAbsent(key, value, ttl)
	case "unchanged":
		done, err = kv.SetIfUnchanged(key, value, ttl)
	case "append":
		longer := func(old []byte, _ bool) []byte { return append(old, value...) }
		value, err = kv.Update(key, ttl, longer)
		return string(value), err, true
	case "delete":
		if done, err = kv.Delete(key); done {
			return "deleted", err, true
		}
		return "not there", err, true
	case "add":
		sum, err := kv.Add(key, number(string(value)))
		return fmt.Sprintf("%s=%d", key, sum), err, true
	default:
		return "", nil, false
	}
	if done {
		return "written", err, true
	}
	return "not written", err, true
}
