package main

import (
	"testing"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

func TestItGreets(t *testing.T) {
	job := dueboxtest.Job{Payload: `{"name":"Ada"}`, Config: map[string]string{"greeting": "Moin"}}
	run := job.Run(handle)
	if run.Verdict != duebox.Ack() || run.Lines[0].Text != "Moin, Ada! (attempt 1 of 8)" {
		t.Error(run)
	}
}

func TestAnAPIThatIsBusyIsAskedAgainWhenItSaysSo(t *testing.T) {
	busy := duebox.Response{Status: 503, Headers: map[string][]string{"retry-after": {"7"}}}
	run := dueboxtest.Job{
		Payload: `{"name":"Ada"}`,
		Config:  map[string]string{"api": "https://api.example.com/"},
		Server:  func(duebox.Request) (duebox.Response, error) { return busy, nil },
	}.Run(handle)
	if run.Verdict != duebox.RetryAfter(7*time.Second, "the server answered 503") {
		t.Error(run.Verdict)
	}
	if string(run.Requests[0].Body) != `{"text":"Hello, Ada!"}` {
		t.Error(run.Requests)
	}
}
