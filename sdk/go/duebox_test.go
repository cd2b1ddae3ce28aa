package duebox_test

import (
	"strings"
	"testing"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

func closeOrder(job *duebox.Job) duebox.Verdict {
	var order struct {
		ID   int  `json:"id"`
		Paid bool `json:"paid"`
	}
	if err := job.JSON(&order); err != nil {
		return duebox.Drop(err.Error())
	}
	patience, err := job.ConfigInt("patience_s", 60)
	if err != nil {
		return duebox.Nack(err.Error())
	}
	if order.Paid {
		duebox.Infof("order %d is paid", order.ID)
		return duebox.Ack()
	}
	duebox.Warnf("order %d is open in attempt %d of %d", order.ID, job.Attempt(), job.MaxAttempts())
	return duebox.RetryAfter(time.Duration(patience)*time.Second, "still open")
}

func TestAVerdictAndLogLinesComeBack(t *testing.T) {
	run := dueboxtest.Job{Payload: `{"id":7,"paid":true}`}.Run(closeOrder)
	if run.Verdict != duebox.Ack() {
		t.Error(run.Verdict)
	}
	if len(run.Lines) != 1 || run.Lines[0] != (dueboxtest.Line{Level: duebox.LevelInfo, Text: "order 7 is paid"}) {
		t.Error(run.Lines)
	}
	run = dueboxtest.Job{Payload: `{"id":7}`, Attempt: 2, MaxAttempts: 3}.Run(closeOrder)
	if run.Verdict != duebox.RetryAfter(time.Minute, "still open") {
		t.Error(run.Verdict)
	}
	if run.Lines[0].Text != "order 7 is open in attempt 2 of 3" {
		t.Error(run.Lines)
	}
}

func TestAMalformedPayloadIsDropped(t *testing.T) {
	run := dueboxtest.Job{Payload: `{"id":"x"}`}.Run(closeOrder)
	if !strings.HasPrefix(run.Verdict.String(), "drop: json:") {
		t.Error(run.Verdict)
	}
}

func TestABadConfigurationValueHidesTheValue(t *testing.T) {
	job := dueboxtest.Job{Payload: `{"id":7}`, Config: map[string]string{"patience_s": "hunter2"}}
	reason := job.Run(closeOrder).Verdict.Reason()
	if !strings.Contains(reason, `"patience_s"`) || strings.Contains(reason, "hunter2") {
		t.Error(reason)
	}
}

func TestMetadataHasTheExpectedTypes(t *testing.T) {
	now := time.UnixMilli(7_000)
	job := dueboxtest.Job{
		Payload: "0123456789",
		ID:      "a/1",
		Topic:   "order.close",
		Now:     now,
		DueAt:   now.Add(-2 * time.Second),
		TTR:     1500 * time.Millisecond,
		Headers: map[string]string{"trace-id": "t: 1", "lang": "zh"},
		Config: map[string]string{
			"long": strings.Repeat("x", 1000), "rate": "0.5", "on": "true", "list": "[1,2]",
		},
	}
	job.Run(func(job *duebox.Job) duebox.Verdict {
		check := func(what string, fine bool) {
			if !fine {
				t.Error(what)
			}
		}
		check("names", job.ID() == "a/1" && job.Topic() == "order.close")
		check("due", job.DueAt().Equal(now.Add(-2*time.Second)) && job.Now().Equal(now))
		check("deadline", job.Deadline().Equal(now.Add(job.TimeLeft())))
		header, found := job.Header("trace-id")
		check("header", found && header == "t: 1" && len(job.Headers()) == 2)
		_, found = job.Header("absent")
		check("absent header", !found)
		long, found := job.Config("long")
		check("long value", found && len(long) == 1000)
		rate, err := job.ConfigFloat("rate", 1)
		check("float", err == nil && rate == 0.5)
		on, err := job.ConfigBool("on", false)
		check("bool", err == nil && on)
		_, err = job.ConfigBool("rate", false)
		check("bad bool", err != nil)
		var list []int
		found, err = job.ConfigJSON("list", &list)
		check("json", found && err == nil && len(list) == 2)
		part := make([]byte, 4)
		check("part", job.ReadPayload(8, part) == 2 && string(part[:2]) == "89")
		check("past the end", job.ReadPayload(99, part) == 0 && job.ReadPayload(-1, part) == 0)
		text, err := job.Text()
		check("text", err == nil && text == "0123456789")
		return duebox.Ack()
	})
}

func TestVerdictsFormatAsText(t *testing.T) {
	for want, verdict := range map[string]duebox.Verdict{
		"ack":                 duebox.Ack(),
		"nack: order 7":       duebox.Nackf("order %d", 7),
		"nack after 2s: soon": duebox.RetryAfter(2*time.Second, "soon"),
		"snooze for 5s: busy": duebox.Snooze(5*time.Second, "busy"),
		"drop: never":         duebox.Drop("never"),
		"no verdict":          {},
	} {
		if verdict.String() != want {
			t.Errorf("%q, want %q", verdict, want)
		}
	}
}
