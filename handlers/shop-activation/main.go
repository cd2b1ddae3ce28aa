// Command shop-activation sends the message to a shop that opened and still has no goods: topic
// shop.activation, pushed by the platform when a shop opens. The platform's API sends it, once,
// however often it is asked to: the job's own Idempotency-Key goes along.
//
// The shop is                            verdict
// without goods, days after it opened    the message is sent, then ack
// with goods meanwhile                   ack without a message
// open for less than that                nack until the day has come
// closed, or the event is malformed      drop, with the reason
//
// The API answers                        verdict
// 2xx                                    ack: it is sent, now or in an attempt before this one
// 408, 429, 5xx, or nothing              nack, after its Retry-After if it has one
// 401 or 403                             nack: the job waits for whoever mends the token
// any other 4xx                          drop, with what it says
//
// The configuration value shop is the API's origin, which sandbox.http must grant; days says when (7
// by default, 0 to 365); the secret token is sent if there is one. Invariant: one line "verdict=…" a
// job, so that a ledger can be read from the log.
package main

import (
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
	verdict := send(job, compose(shop, int64(job.Now().Sub(shop.OpenedAt)/day)))
	switch {
	case verdict == duebox.Ack():
		duebox.Infof("verdict=ack shop=%s message=true", shop.ID)
	case verdict == duebox.Drop(verdict.Reason()):
		duebox.Infof("verdict=drop shop=%s reason=%q", shop.ID, verdict.Reason())
	default:
		duebox.Infof("verdict=nack shop=%s reason=%q", shop.ID, verdict.Reason())
	}
	return verdict
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
