// Command reach-go sends requests and keeps values as a conformance case asks, with the Go SDK alone. It is
// separate from echo-go because a module that imports http_send or kv_get runs only if the topic grants it.
// The steps are in the header "script", as for echo-go; tests/conformance/README.md describes each.
//
// Invariant: reach-rust and reach-as log the same text for every step.
package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"duebox.dev/duebox"
)

func init() { duebox.Handle(handle) }

func main() {}

func handle(job *duebox.Job) duebox.Verdict {
	network := network{}
	script, _ := job.Header("script")
	for line := range strings.SplitSeq(script, "; ") {
		step, rest, _ := strings.Cut(line, " ")
		if step == "must" {
			if err := network.send(job, rest); err != nil {
				return duebox.Nack(err.Error())
			}
			continue
		}
		if network.step(job, step, rest) || storeStep(job, step, rest) {
			continue
		}
		switch step {
		case "verdict":
			return network.last.Verdict()
		case "ack":
			return duebox.Ack()
		case "nack":
			return duebox.Nack(rest)
		default:
			return duebox.Dropf("unknown step %q", step)
		}
	}
	return duebox.Ack()
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("invalid number in the script: %v", err))
	}
	return value
}

func span(text string) time.Duration { return time.Duration(number(text)) * time.Millisecond }
