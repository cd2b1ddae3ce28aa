// Command shop-activation sends a message to a shop that opened and still has no goods. The platform pushes a
// job to topic shop.activation when a shop opens. The job's Idempotency-Key makes the platform's API send the
// message once, even if it is asked several times.
//
// Shop                                   verdict
// without goods, days after it opened    the message is sent, then ack
// with goods                             ack without a message
// open for less than that                nack until that day
// closed, or a malformed event           drop, with the reason
//
// API's response                         verdict
// 2xx                                    ack; it is sent, now or in an earlier attempt
// 408, 429, 5xx, or no response          nack, after the Retry-After if there is one
// 401 or 403                             nack; the job waits until the token is corrected
// any other 4xx                          drop, with the API's message
//
// Configuration: shop, the API's origin, which sandbox.http must grant; days, the number of days after
// opening (default 7, 0 to 365); the secret token, if the API requires one.
//
// Invariant: each job logs one line "verdict=…", so that a ledger can be read from the log.
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

// misconfigured is a nack: the job is not at fault and waits until the manifest is corrected.
func misconfigured(days int64, err error) duebox.Verdict {
	verdict := duebox.Nackf(`the configuration value "days" is %d; it must be from 0 to %d`, days, daysMax)
	if err != nil {
		verdict = duebox.Nack(err.Error())
	}
	duebox.Infof("verdict=nack reason=%q", verdict.Reason())
	return verdict
}
