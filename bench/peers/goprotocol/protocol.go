// Package goprotocol is what the peers written in Go have in common: the arguments they take, the
// marks of the jobs they handled, and what they answer (see ../README.md).
package goprotocol

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	payloadLen = 200
	// Lead is how long after the first push the first job falls due.
	Lead = 3 * time.Second
	// InFlight is how many pushes are under way at once in push-flight.
	InFlight = 32
	stallMax = 35 * time.Second
)

// Task is what a peer is asked to do.
type Task struct {
	Name     string
	Tuned    bool
	Addr     string
	Jobs     int
	SpreadMs int64

	stdin   *bufio.Reader
	marks   []atomic.Int32
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
	return &Task{
		Name: os.Args[1], Tuned: os.Args[2] == "tuned", Addr: os.Args[3], Jobs: jobs, SpreadMs: spread,
		stdin: bufio.NewReader(os.Stdin), marks: make([]atomic.Int32, jobs), lateUs: make([]int64, jobs),
		warm: make(chan struct{}, 1),
	}
}

// Fail ends the program if there is an error.
func Fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Unsupported says that the peer cannot do the task, and ends the program.
func Unsupported(why string) {
	answer(map[string]any{"unsupported": why})
	os.Exit(0)
}

// Ready says that all is prepared, and waits for the word to go; without one the program ends.
func (t *Task) Ready() {
	answer(map[string]any{"ready": true})
	if _, err := t.stdin.ReadString('\n'); err != nil {
		os.Exit(0)
	}
}

// Idle says that all is prepared, and waits until nobody needs the worker any more.
func (t *Task) Idle() {
	t.Ready()
	t.waitForEnd()
}

// waitForEnd waits for the end of stdin: until then the process can be looked at.
func (t *Task) waitForEnd() {
	_, _ = io.Copy(io.Discard, t.stdin)
}

// Payload is a job's: its number and due time, filled up to the length all peers have.
func Payload(number int, due time.Time) []byte {
	head := fmt.Sprintf(`{"n":%d,"due_us":%d,"pad":"`, number, due.UnixMicro())
	return []byte(head + strings.Repeat("x", payloadLen-len(head)-2) + `"}`)
}

// Handle marks a job as handled. The job with number -1 is the one that warms the worker up.
func (t *Task) Handle(payload []byte) {
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
	if t.marks[job.N].Add(1) > 1 {
		t.twice.Add(1)
		return
	}
	t.lateUs[job.N] = now - job.DueUs
	t.last.Store(now)
	t.handled.Add(1)
}

// WaitWarm waits for the job with number -1.
func (t *Task) WaitWarm() {
	select {
	case <-t.warm:
	case <-time.After(60 * time.Second):
		Fail(fmt.Errorf("the first job was not handled in a minute"))
	}
}

// Due is when the job of this number falls due, if the first does at begin.
func (t *Task) Due(begin time.Time, number int) time.Time {
	return begin.Add(time.Duration(int64(number)*t.SpreadMs/int64(t.Jobs)) * time.Millisecond)
}

// Pushed says that all is pushed. Where that took until the first job fell due, there is nothing to
// find out, and the program ends.
func (t *Task) Pushed(begin time.Time) {
	if time.Now().After(begin) {
		Unsupported("its pushes took longer than the time until the first job fell due")
	}
}

// Begin is a whole millisecond, some seconds from now.
func Begin() time.Time {
	return time.Now().Add(Lead).Truncate(time.Millisecond)
}

// Finish waits until every job has been handled, or none was for long, and answers. `from` is when the
// time began to run.
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
		for n := range t.marks {
			if t.marks[n].Load() > 0 {
				late = append(late, t.lateUs[n])
			}
		}
		found["late_us"] = late
	}
	answer(found)
	t.waitForEnd()
}

// Push pushes every job, one after the other, and answers how long it took.
func (t *Task) Push(push func(number int)) {
	t.Ready()
	from := time.Now()
	for number := range t.Jobs {
		push(number)
	}
	answer(map[string]any{"seconds": time.Since(from).Seconds()})
	t.waitForEnd()
}

// PushInFlight is the same with many pushes under way at once.
func (t *Task) PushInFlight(push func(number int)) {
	t.Ready()
	from := time.Now()
	t.Spread(push)
	answer(map[string]any{"seconds": time.Since(from).Seconds()})
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

func answer(value any) {
	Fail(json.NewEncoder(os.Stdout).Encode(value))
}
