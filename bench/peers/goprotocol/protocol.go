// Package goprotocol contains what the peers written in Go share: the arguments, the records of handled jobs,
// and the replies (see ../README.md).
package goprotocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	payloadLen = 200
	// Lead is the time from the first push to the first due time.
	Lead = 3 * time.Second
	// InFlight is the number of concurrent pushes in push-flight.
	InFlight = 32
	stallMax = 35 * time.Second
)

// Task is the task of a peer.
type Task struct {
	Name     string
	Tuned    bool
	Addr     string
	Jobs     int
	SpreadMs int64
	// Concurrency is the number of jobs at once, where the handler posts them; 0 elsewhere.
	Concurrency int

	postsTo string
	client  *http.Client
	stdin   *bufio.Reader
	runs    []atomic.Int32
	lateUs  []int64
	handled atomic.Int64
	twice   atomic.Int64
	last    atomic.Int64
	warm    chan struct{}
}

// Read reads the command line: TASK SETTINGS HOST:PORT JOBS SPREAD_MS.
func Read() *Task {
	if len(os.Args) != 6 {
		Fail(fmt.Errorf("usage: %s TASK SETTINGS HOST:PORT JOBS SPREAD_MS", os.Args[0]))
	}
	jobs, err := strconv.Atoi(os.Args[4])
	Fail(err)
	spread, err := strconv.ParseInt(os.Args[5], 10, 64)
	Fail(err)
	task := &Task{
		Name: os.Args[1], Tuned: os.Args[2] == "tuned", Addr: os.Args[3], Jobs: jobs, SpreadMs: spread,
		stdin: bufio.NewReader(os.Stdin), runs: make([]atomic.Int32, jobs), lateUs: make([]int64, jobs),
		warm: make(chan struct{}, 1), postsTo: os.Getenv("PEER_POSTS_TO"),
	}
	if task.postsTo != "" {
		task.Concurrency, err = strconv.Atoi(os.Getenv("PEER_CONCURRENCY"))
		Fail(err)
		// By default two connections of a host are kept.
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = task.Concurrency, task.Concurrency
		task.client = &http.Client{Transport: transport}
	}
	return task
}

// Fail exits with an error message if err is not nil.
func Fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Unsupported reports that the peer cannot do the task, and exits.
func Unsupported(why string) {
	reply(map[string]any{"unsupported": why})
	os.Exit(0)
}

// Ready reports readiness and waits for the signal to start; it exits if stdin closes first.
func (t *Task) Ready() {
	reply(map[string]any{"ready": true})
	if _, err := t.stdin.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

// Idle reports readiness and waits until stdin closes.
func (t *Task) Idle() {
	t.Ready()
	t.waitForEnd()
}

// waitForEnd waits until stdin closes; the bench measures the process until then.
func (t *Task) waitForEnd() {
	_, _ = io.Copy(io.Discard, t.stdin)
}

// Payload is a job's payload: its number and due time, padded to the length that all peers use.
func Payload(number int, due time.Time) []byte {
	head := fmt.Sprintf(`{"n":%d,"due_us":%d,"pad":"`, number, due.UnixMicro())
	return []byte(head + strings.Repeat("x", payloadLen-len(head)-2) + `"}`)
}

// Handle records a job as handled. The job with number -1 warms up the worker.
func (t *Task) Handle(payload []byte) {
	if t.client != nil {
		t.post(payload)
	}
	now := time.Now().UnixMicro()
	var job struct {
		N     int   `json:"n"`
		DueUs int64 `json:"due_us"`
	}
	Fail(json.Unmarshal(payload, &job))
	if job.N < 0 {
		t.warm <- struct{}{}
		return
	}
	if t.runs[job.N].Add(1) > 1 {
		t.twice.Add(1)
		return
	}
	t.lateUs[job.N] = now - job.DueUs
	t.last.Store(now)
	t.handled.Add(1)
}

// post sends the job to the receiver, which must accept it.
func (t *Task) post(payload []byte) {
	response, err := t.client.Post(t.postsTo, "application/json", bytes.NewReader(payload))
	Fail(err)
	_, err = io.Copy(io.Discard, response.Body)
	Fail(err)
	Fail(response.Body.Close())
	if response.StatusCode != http.StatusOK {
		Fail(fmt.Errorf("the receiver answered %s", response.Status))
	}
}

// WaitWarm waits for the job with number -1.
func (t *Task) WaitWarm() {
	select {
	case <-t.warm:
	case <-time.After(60 * time.Second):
		Fail(fmt.Errorf("the first job was not handled within a minute"))
	}
}

// Due is the due time of the job with this number, given that of the first.
func (t *Task) Due(begin time.Time, number int) time.Time {
	return begin.Add(time.Duration(int64(number)*t.SpreadMs/int64(t.Jobs)) * time.Millisecond)
}

// Pushed is called when all jobs are pushed. If the first job is due by then, the lateness cannot be
// measured, and the program exits.
func (t *Task) Pushed(begin time.Time) {
	if time.Now().After(begin) {
		Unsupported("the pushes did not finish before the first job fell due")
	}
}

// Begin is a whole millisecond a few seconds from now.
func Begin() time.Time {
	return time.Now().Add(Lead).Truncate(time.Millisecond)
}

// Finish waits until every job is handled, or none for a long time, and replies. The time runs from `from`.
func (t *Task) Finish(from time.Time, withLateness bool) {
	seen, moved := int64(-1), time.Now()
	for {
		handled := t.handled.Load()
		if handled != seen {
			seen, moved = handled, time.Now()
		}
		if handled == int64(t.Jobs) || time.Since(moved) > stallMax {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	seconds := float64(t.last.Load()-from.UnixMicro()) / 1e6
	found := map[string]any{"handled": seen, "twice": t.twice.Load(), "seconds": seconds}
	if withLateness {
		late := make([]int64, 0, t.Jobs)
		for n := range t.runs {
			if t.runs[n].Load() > 0 {
				late = append(late, t.lateUs[n])
			}
		}
		found["late_us"] = late
	}
	reply(found)
	t.waitForEnd()
}

// Push pushes every job, one at a time, and replies with the time taken.
func (t *Task) Push(push func(number int)) {
	t.Ready()
	from := time.Now()
	for number := range t.Jobs {
		push(number)
	}
	reply(map[string]any{"seconds": time.Since(from).Seconds()})
	t.waitForEnd()
}

// PushInFlight does the same with many pushes in flight.
func (t *Task) PushInFlight(push func(number int)) {
	t.Ready()
	from := time.Now()
	t.Spread(push)
	reply(map[string]any{"seconds": time.Since(from).Seconds()})
	t.waitForEnd()
}

// Spread calls push for every job, many at once.
func (t *Task) Spread(push func(number int)) {
	var next atomic.Int64
	done := make(chan struct{})
	for range InFlight {
		go func() {
			for number := next.Add(1) - 1; number < int64(t.Jobs); number = next.Add(1) - 1 {
				push(int(number))
			}
			done <- struct{}{}
		}()
	}
	for range InFlight {
		<-done
	}
}

func reply(value any) {
	Fail(json.NewEncoder(os.Stdout).Encode(value))
}
