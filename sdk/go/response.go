package duebox

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"duebox.dev/duebox/internal/abi"
)

// A Response is the answer to a request, whatever its status, read whole.
type Response struct {
	Status int    // 100 to 599
	URL    string // where it came from: where the request went, or its last redirect
	// By name in lower case. Several of one name are one, joined by ", ", but for set-cookie.
	Headers map[string][]string
	Body    []byte // as it came: the host unpacks nothing
}

// IsSuccess is true if the status is 200 to 299.
func (r Response) IsSuccess() bool { return r.Status >= 200 && r.Status < 300 }

// Header is the first header of this name, in any case; empty if there is none.
func (r Response) Header(name string) string {
	if values := r.Headers[strings.ToLower(name)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// JSON reads the body into a value, as json.Unmarshal does.
func (r Response) JSON(into any) error { return json.Unmarshal(r.Body, into) }

// RetryAfter is how long the server asks to wait, in seconds or as a date, and whether it does so in a
// form that is known.
func (r Response) RetryAfter() (wait time.Duration, found bool) {
	value := strings.TrimSpace(r.Header("retry-after"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	// The three forms of RFC 9110, 5.6.7; all are in GMT, whether they say so or not.
	for _, form := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if date, err := time.Parse(form, value); err == nil {
			return max(0, date.Sub(time.UnixMilli(abi.MetaInt(abi.MetaNow)))), true
		}
	}
	return 0, false
}

// Verdict is what webhooks take an answer for: 200 to 299 is an ack; 408, 429 and 500 to 599 are a nack,
// with the wait that the server asks for; every other 400 to 499 is a drop, because a repeat of the same
// request would get the same; anything else, such as a redirect, is a nack.
func (r Response) Verdict() Verdict {
	reason := "the server answered " + strconv.Itoa(r.Status)
	switch {
	case r.IsSuccess():
		return Ack()
	case r.Status == 408 || r.Status == 429 || r.Status >= 500:
		if wait, found := r.RetryAfter(); found {
			return RetryAfter(wait, reason)
		}
		return Nack(reason)
	case r.Status >= 400:
		return Drop(reason)
	}
	return Nack(reason)
}
