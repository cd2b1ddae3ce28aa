// The handler of the topic "hello": it greets the name in the payload, sends the greeting to an API if the configuration
// names one, and keeps it as the job's result.
package main

import (
	"fmt"

	"duebox.dev/duebox"
)

func init() { duebox.Handle(handle) }

func main() {} // a module is a library; main does not run

type message struct {
	Text string `json:"text"`
}

func handle(job *duebox.Job) duebox.Verdict {
	var greeting struct {
		Name string `json:"name"`
	}
	if err := job.JSON(&greeting); err != nil {
		return duebox.Drop(err.Error()) // malformed: no retry can help, so the job is dead at once
	}
	if greeting.Name == "" {
		return duebox.Drop("the payload has no name")
	}
	word, found := job.Config("greeting")
	if !found {
		word = "Hello"
	}
	text := fmt.Sprintf("%s, %s!", word, greeting.Name)
	if api, found := job.Config("api"); found {
		response, err := job.SendJSON(duebox.Request{URL: api}, message{text})
		if err != nil {
			return duebox.Nack(err.Error()) // not reached: tried again after the backoff, and so is a panic
		}
		if !response.IsSuccess() {
			return response.Verdict() // busy (429, 5xx) is a nack until its Retry-After, another 4xx a drop
		}
	}
	duebox.Infof("%s (attempt %d of %d)", text, job.Attempt(), job.MaxAttempts())
	if err := job.SetResult([]byte(text)); err != nil {
		return duebox.Nack(err.Error())
	}
	return duebox.Ack()
}
