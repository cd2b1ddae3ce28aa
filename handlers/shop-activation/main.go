// Command shop-activation composes the message to a shop that opened and still has no goods: topic
// shop.activation, pushed by the platform when a shop opens.
//
// The shop is                      verdict
// without goods, days after it opened    ack: the message is logged, ready to be sent
// with goods meanwhile                   ack without a message
// open for less than that                nack until the day has come
// closed, or the event is malformed      drop, with the reason
//
// The configuration value days says when (7 by default, 0 to 365). Invariant: one line "verdict=…"
// a job, so that a ledger can be read from the log, and at most one message before it.
package main

import (
	"encoding/json"
	"time"

	"duebox.dev/duebox"
)

const daysByDefault, daysMax = 7, 365

const day = 24 * time.Hour

func init() { duebox.Handle(handle) }

func main() {}

func handle(job *duebox.Job) duebox.Verdict {
	shop, err := readShop(job)
	if err != nil {
		return dropped("malformed event: " + err.Error())
	}
	days, err := job.ConfigInt("days", daysByDefault)
	if err != nil || days < 0 || days > daysMax {
		return misconfigured(days, err)
	}
	if shop.Status == "closed" {
		return dropped("the shop " + shop.ID + " is closed")
	}
	if *shop.Goods > 0 {
		duebox.Infof("verdict=ack shop=%s message=false goods=%d", shop.ID, *shop.Goods)
		return duebox.Ack()
	}
	due := shop.OpenedAt.Add(time.Duration(days) * day)
	if wait := due.Sub(job.Now()); wait > 0 {
		duebox.Infof("verdict=nack shop=%s message=false wait_ms=%d", shop.ID, wait.Milliseconds())
		return duebox.RetryAfter(wait, "the shop "+shop.ID+" has opened too recently")
	}
	line, err := json.Marshal(compose(shop, int64(job.Now().Sub(shop.OpenedAt)/day)))
	if err != nil {
		return dropped(err.Error())
	}
	duebox.Log(duebox.LevelInfo, string(line))
	duebox.Infof("verdict=ack shop=%s message=true", shop.ID)
	return duebox.Ack()
}

func dropped(reason string) duebox.Verdict {
	duebox.Infof("verdict=drop reason=%q", reason)
	return duebox.Drop(reason)
}

// misconfigured blames the topic and not the job: it waits for whoever mends the manifest.
func misconfigured(days int64, err error) duebox.Verdict {
	verdict := duebox.Nackf(`the configuration value "days" is %d; it must be from 0 to %d`, days, daysMax)
	if err != nil {
		verdict = duebox.Nack(err.Error())
	}
	duebox.Infof("verdict=nack reason=%q", verdict.Reason())
	return verdict
}
