// The peer delayqueue: https://github.com/HDT3213/delayqueue
//
// Default settings, and tuned: 20 consumers, Redis polled every 10 ms for up to 4,000 jobs.
package main

import (
	"io"
	"log"
	"time"

	peer "duebox.dev/bench/peers/goprotocol"
	"github.com/hdt3213/delayqueue"
	"github.com/redis/go-redis/v9"
)

func main() {
	task := peer.Read()
	client := redis.NewClient(&redis.Options{Addr: task.Addr, PoolSize: 64})
	queue := delayqueue.NewQueue("bench", client, func(payload string) bool {
		task.Handle([]byte(payload))
		return true
	}).WithLogger(log.New(io.Discard, "", 0))
	if task.Tuned {
		queue = queue.WithConcurrent(20).WithFetchInterval(10 * time.Millisecond).WithFetchLimit(4000)
	}
	push := func(number int, due time.Time) {
		peer.Fail(queue.SendScheduleMsg(string(peer.Payload(number, due)), due))
	}
	now := func(number int) { push(number, time.Now()) }
	switch task.Name {
	case "push-one":
		task.Push(now)
	case "push-flight":
		task.PushInFlight(now)
	case "push-batch":
		peer.Unsupported("it has no batches")
	case "drain":
		task.Spread(now)
		task.Ready()
		from := time.Now()
		queue.StartConsume()
		task.Finish(from, false)
	case "due":
		queue.StartConsume()
		now(-1)
		task.WaitWarm()
		task.Ready()
		begin := peer.Begin()
		task.Spread(func(number int) { push(number, task.Due(begin, number)) })
		task.Pushed(begin)
		task.Finish(begin, true)
	case "idle":
		queue.StartConsume()
		now(-1)
		task.WaitWarm()
		task.Idle()
	default:
		peer.Unsupported("unknown task")
	}
}
