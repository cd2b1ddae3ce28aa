// A handler that greets the name in the payload.
package main

import (
	"time"

	"duebox.dev/duebox"
)

func init() { duebox.Handle(handle) }

func main() {} // a module is a library; main does not run

func handle(job *duebox.Job) duebox.Verdict {
	var greeting struct {
		Name   string `json:"name"`
		Asleep bool   `json:"asleep"`
	}
	if err := job.JSON(&greeting); err != nil {
		return duebox.Drop(err.Error()) // malformed: do not retry
	}
	word, found := job.Config("greeting")
	if !found {
		word = "Hello"
	}
	if greeting.Asleep {
		return duebox.RetryAfter(time.Minute, "asleep")
	}
	duebox.Infof("%s, %s! (attempt %d of %d)", word, greeting.Name, job.Attempt(), job.MaxAttempts())
	return duebox.Ack()
}
