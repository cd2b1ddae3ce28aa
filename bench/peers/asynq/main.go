// The peer asynq: https://github.com/hibiken/asynq
//
// Default settings, and tuned: 32 workers, queue and delayed tasks polled every 100 ms.
package main

import (
	"context"
	"time"

	peer "duebox.dev/bench/peers/goprotocol"
	"github.com/hibiken/asynq"
)

func main() {
	task := peer.Read()
	redis := asynq.RedisClientOpt{Addr: task.Addr}
	client := asynq.NewClient(redis)
	defer client.Close()
	push := func(number int, due time.Time, options ...asynq.Option) {
		_, err := client.Enqueue(asynq.NewTask("bench", peer.Payload(number, due)), options...)
		peer.Fail(err)
	}
	now := func(number int) { push(number, time.Now()) }
	switch task.Name {
	case "push-one":
		task.Push(now)
	case "push-flight":
		task.PushInFlight(now)
	case "push-batch":
		peer.Unsupported("this version has no batches")
	case "drain":
		task.Spread(now)
		task.Ready()
		from := time.Now()
		serve(task, redis)
		task.Finish(from, false)
	case "due":
		serve(task, redis)
		now(-1)
		task.WaitWarm()
		task.Ready()
		begin := peer.Begin()
		task.Spread(func(number int) {
			due := task.Due(begin, number)
			push(number, due, asynq.ProcessAt(due))
		})
		task.Pushed(begin)
		task.Finish(begin, true)
	case "idle":
		serve(task, redis)
		now(-1)
		task.WaitWarm()
		task.Idle()
	default:
		peer.Unsupported("unknown task")
	}
}

func serve(task *peer.Task, redis asynq.RedisClientOpt) {
	config := asynq.Config{LogLevel: asynq.ErrorLevel}
	if task.Tuned {
		config.Concurrency = 32
		config.TaskCheckInterval = 100 * time.Millisecond
		config.DelayedTaskCheckInterval = 100 * time.Millisecond
	}
	if task.Concurrency > 0 {
		config.Concurrency = task.Concurrency
	}
	server := asynq.NewServer(redis, config)
	peer.Fail(server.Start(asynq.HandlerFunc(func(_ context.Context, job *asynq.Task) error {
		task.Handle(job.Payload())
		return nil
	})))
}
