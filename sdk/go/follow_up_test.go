package duebox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

var reminder = duebox.FollowUp{
	Topic:       "remind",
	Payload:     []byte(`["welcome"]`),
	ID:          "remind/7",
	Delay:       time.Hour,
	TTR:         5 * time.Second,
	MaxAttempts: 3,
	TTL:         time.Minute,
	Priority:    duebox.PriorityLow,
	Key:         "user 7",
	Headers:     map[string]string{"traceparent": "00-ab", "lang": "zh: 你好"},
}

// welcome sends a message and schedules a reminder; it snoozes if the line is busy.
func welcome(job *duebox.Job) duebox.Verdict {
	if _, busy := job.Header("busy"); busy {
		return duebox.Snooze(5*time.Second, "the line is busy")
	}
	for _, followUp := range []duebox.FollowUp{{Topic: "sms.eu", Payload: job.Payload()}, reminder} {
		if err := job.Push(followUp); err != nil {
			return duebox.Nack(err.Error())
		}
	}
	if err := job.SetResult([]byte("sent")); err != nil {
		return duebox.Nack(err.Error())
	}
	return duebox.Ack()
}

func TestFollowUpsAndAResultComeWithAnAck(t *testing.T) {
	run := dueboxtest.Job{Payload: "hello"}.Run(welcome)
	if run.Verdict != duebox.Ack() || len(run.FollowUps) != 2 || string(run.Result) != "sent" {
		t.Fatal(run)
	}
	message, got := run.FollowUps[0], run.FollowUps[1]
	if message.Topic != "sms.eu" || string(message.Payload) != "hello" || message.ID != "" {
		t.Error(message)
	}
	if string(got.Payload) != string(reminder.Payload) || got.ID != reminder.ID || got.Delay != reminder.Delay ||
		got.TTR != reminder.TTR || got.MaxAttempts != 3 || got.TTL != reminder.TTL ||
		got.Priority != duebox.PriorityLow || got.Key != "user 7" || got.Headers["lang"] != "zh: 你好" {
		t.Error(got)
	}
}

func TestAJobThatIsNotAckedPushesAndKeepsNothing(t *testing.T) {
	run := dueboxtest.Job{MayPush: []string{"sms.*"}}.Run(welcome)
	if run.Verdict != duebox.Nack(duebox.ErrPushDenied.Error()) || run.FollowUps != nil || run.Result != nil {
		t.Error(run)
	}
	run = dueboxtest.Job{Headers: map[string]string{"busy": "1"}}.Run(welcome)
	if run.Verdict != duebox.Snooze(5*time.Second, "the line is busy") {
		t.Error(run)
	}
	run = dueboxtest.Job{MayPush: []string{"sms.eu", "remind"}}.Run(welcome)
	if run.Verdict != duebox.Ack() {
		t.Error(run)
	}
}

func TestTheTestHostRefusesWhatTheDaemonRefuses(t *testing.T) {
	now := time.UnixMilli(1_764_000_000_000)
	header := func(name, value string) map[string]string { return map[string]string{name: value} }
	run := dueboxtest.Job{}.Run(func(job *duebox.Job) duebox.Verdict {
		for _, bad := range []duebox.FollowUp{
			{},
			{Topic: "a b"},
			{Topic: "a\nid: forged"},
			{Topic: "a", ID: "a b"},
			{Topic: "a", Key: "1\nid: forged"},
			{Topic: "a", Key: strings.Repeat("k", 257)},
			{Topic: "a", MaxAttempts: -1},
			{Topic: "a", TTR: -time.Second},
			{Topic: "a", TTR: time.Microsecond},
			{Topic: "a", Delay: 100_000 * time.Hour},
			{Topic: "a", At: time.UnixMilli(1_764_000_000)},
			{Topic: "a", At: now, Delay: time.Second},
			{Topic: "a", Priority: 7},
			{Topic: "a", Headers: header("Upper", "1")},
			{Topic: "a", Headers: header("a: b\nid", "1")},
			{Topic: "a", Headers: header("a", "1\r\n")},
			{Topic: "a", Headers: header(strings.Repeat("n", 63), "1")},
		} {
			if err := job.Push(bad); !errors.Is(err, duebox.ErrPushInvalid) {
				t.Error(bad, err)
			}
		}
		if err := job.Push(duebox.FollowUp{Topic: "a", Payload: make([]byte, 4<<20)}); !errors.Is(err, duebox.ErrPushTooLarge) {
			t.Error(err)
		}
		for range 100 {
			if err := job.Push(duebox.FollowUp{Topic: "a", At: now}); err != nil {
				t.Error(err)
			}
		}
		if err := job.Push(duebox.FollowUp{Topic: "a"}); !errors.Is(err, duebox.ErrPushTooLarge) {
			t.Error(err)
		}
		if err := job.SetResult([]byte(strings.Repeat("1", 64<<10))); err != nil {
			t.Error(err)
		}
		if err := job.SetResult(make([]byte, 64<<10+1)); !errors.Is(err, duebox.ErrResultTooLarge) {
			t.Error(err)
		}
		return duebox.Ack()
	})
	if len(run.FollowUps) != 100 || !run.FollowUps[99].At.Equal(now) || run.Result[0] != '1' {
		t.Error(len(run.FollowUps), len(run.Result))
	}
}
