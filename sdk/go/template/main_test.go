package main

import (
	"testing"

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
