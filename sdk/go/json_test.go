package duebox_test

import (
	"errors"
	"testing"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

type receipt struct {
	Order int    `json:"order"`
	Note  string `json:"note"`
}

// sendReceipt writes the same value as a request, as a follow-up and as its result.
func sendReceipt(job *duebox.Job) duebox.Verdict {
	value := receipt{42, string(job.Payload())}
	response, err := job.SendJSON(duebox.Request{URL: "https://api.example.com/receipts"}, value)
	if err == nil {
		err = job.PushJSON(duebox.FollowUp{Topic: "mail"}, value)
	}
	if err == nil {
		err = job.SetResultJSON(value)
	}
	if err != nil {
		return duebox.Nack(err.Error())
	}
	return response.Verdict()
}

func TestValuesAreWrittenAsJSON(t *testing.T) {
	server := func(duebox.Request) (duebox.Response, error) { return duebox.Response{Status: 201}, nil }
	run := dueboxtest.Job{Payload: `"fine"`, Server: server}.Run(sendReceipt)
	if run.Verdict != duebox.Ack() || len(run.FollowUps) != 1 || len(run.Requests) != 1 {
		t.Fatal(run)
	}
	want, request := `{"order":42,"note":"\"fine\""}`, run.Requests[0]
	if string(run.FollowUps[0].Payload) != want || string(run.Result) != want || string(request.Body) != want {
		t.Error(run)
	}
	if request.Method != "POST" || request.Header("content-type") != "application/json" {
		t.Error(request)
	}
}

func TestWhatIsNoJSONIsRefused(t *testing.T) {
	dueboxtest.Job{}.Run(func(job *duebox.Job) duebox.Verdict {
		unwritable := make(chan int)
		_, err := job.SendJSON(duebox.Request{URL: "https://api.example.com/", Method: "PUT"}, unwritable)
		if err == nil || job.PushJSON(duebox.FollowUp{Topic: "mail"}, unwritable) == nil {
			t.Error(err)
		}
		if job.SetResultJSON(unwritable) == nil || !errors.Is(job.SetResultJSON(make([]int, 64<<10)), duebox.ErrResultTooLarge) {
			t.Error("a result that cannot be kept is kept")
		}
		return duebox.Ack()
	})
}
