package duebox

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"duebox.dev/duebox/internal/abi"
)

// A Response is the response to a request, whatever its status.
type Response struct {
	Status int    // 100 to 599
	URL    string // that of the request, or of its last redirect
	// By name in lower case. Several headers of one name are joined by ", ", except for set-cookie.
	Headers map[string][]string
	Body    []byte // as received: the host does not decompress it
}

// IsSuccess reports whether the status is 200 to 299.
func (r Response) IsSuccess() bool { return r.Status >= 200 && r.Status < 300 }

// Header is the first header of this name, which is case-insensitive; empty if it does not exist.
func (r Response) Header(name string) string {
	if values := r.Headers[strings.ToLower(name)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// JSON reads the body into a value, as json.Unmarshal does.
func (r Response) JSON(into any) error { return json.Unmarshal(r.Body, into) }

// RetryAfter is how long the server asks to wait, in seconds or as a date, and whether the header exists and
// is well-formed.
func (r Response) RetryAfter() (wait time.Duration, found bool) {
	value := strings.TrimSpace(r.Header("retry-after"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	// The three forms of RFC 9110, 5.6.7; all are in GMT, even without the letters.
	for _, form := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if date, err := time.Parse(form, value); err == nil {
			return max(0, date.Sub(time.UnixMilli(abi.MetaInt(abi.MetaNow)))), true
		}
	}
	return 0, false
}

// Verdict is the verdict that webhooks conventionally derive from a response. 200 to 299 is an ack. 408, 429
// and 500 to 599 are a nack with the delay that the server asks for. Every other 400 to 499 is a drop,
// because a repeat would get the same response. Anything else, such as a redirect, is a nack.
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
