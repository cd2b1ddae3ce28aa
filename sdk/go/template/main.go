// The handler of the topic "hello": it greets the name in the payload, and keeps the greeting as the job's result.
package main

import (
	"fmt"
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
		return duebox.Drop(err.Error()) // malformed: no retry can help, so the job is dead at once
	}
	word, found := job.Config("greeting")
	if !found {
		word = "Hello"
	}
	if greeting.Asleep {
		return duebox.RetryAfter(time.Minute, "asleep") // a panic is tried again too, after the backoff
	}
	text := fmt.Sprintf("%s, %s!", word, greeting.Name)
	duebox.Infof("%s (attempt %d of %d)", text, job.Attempt(), job.MaxAttempts())
	if err := job.SetResult([]byte(text)); err != nil {
		return duebox.Nack(err.Error())
	}
	return duebox.Ack()
}
