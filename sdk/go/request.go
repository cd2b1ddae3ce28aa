package duebox

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"duebox.dev/duebox/internal/abi"
)

// A Request goes to a host that the topic grants (sandbox.http). The host sends with it
// "Idempotency-Key: TOPIC/ID", which is the same in every attempt of the job, "Duebox-Attempt",
// "traceparent" and "User-Agent"; a handler may set its own but for the attempt. A job that writes more
// than once to one server should give each write a key of its own.
type Request struct {
	Method  string            // GET if empty
	URL     string            // absolute, of http or https, with no user in it
	Headers map[string]string // names of letters, digits and . _ - in any case
	Body    []byte
	// How long the whole exchange may take, the redirects that it follows included; from 1 ms on. Zero
	// is, and at most it is, the time that the job has left.
	Timeout time.Duration
	// How many redirects are followed. Each hop must be granted like the first. A 303, and a 301 or 302
	// that answers a POST, is followed by a GET without the body. Authorization and Cookie are not sent
	// on to another origin; other headers are. An answer that is not followed, after so many too, is the
	// response.
	Follow int
}

// Why a request has no answer. The error itself has the host's words; errors.Is tells which it is.
var (
	ErrHTTPDenied      = errors.New("the topic does not grant this host, or its address is private; sandbox.http and sandbox.http_private grant it")
	ErrHTTPInvalid     = errors.New("the method, the URL or a header is not as it must be")
	ErrHTTPTooLarge    = errors.New("the answer is larger than the topic takes (sandbox.http_body), or what is sent is too large")
	ErrHTTPTimeout     = errors.New("the request's own time was over before the answer was there")
	ErrHTTPUnavailable = errors.New("the server cannot be reached, or it broke off")
)

// httpError is one of the errors above with the host's words.
type httpError struct {
	kind error
	why  string
}

func (e *httpError) Error() string { return e.why }
func (e *httpError) Unwrap() error { return e.kind }

// Timeout makes it one of those that packages of the standard library know as a timeout.
func (e *httpError) Timeout() bool { return e.kind == ErrHTTPTimeout }

func newHTTPError(answer int32, why string) error {
	kind, known := map[int32]error{
		abi.Denied: ErrHTTPDenied, abi.Invalid: ErrHTTPInvalid, abi.TooLarge: ErrHTTPTooLarge,
		abi.Timeout: ErrHTTPTimeout,
	}[answer]
	if !known {
		kind = ErrHTTPUnavailable
	}
	if why == "" {
		return kind
	}
	return &httpError{kind, why}
}

// Send sends a request and waits for the whole answer, whatever its status. The error says why there is
// none. For code that wants a net/http.Client there is package dueboxhttp.
func (j *Job) Send(request Request) (Response, error) {
	started := j.Now()
	response, err := request.exchange(request.Timeout)
	for hop := 0; err == nil && hop < request.Follow; hop++ {
		next, found := request.redirected(response)
		if !found {
			break
		}
		left := request.Timeout
		if left != 0 {
			left -= j.Now().Sub(started)
			if left < time.Millisecond {
				return Response{}, newHTTPError(abi.Timeout, "no time was left to follow a redirect")
			}
		}
		request = next
		response, err = request.exchange(left)
	}
	return response, err
}

// exchange is one hop; without a timeout it may take the time that the job has left.
func (r Request) exchange(timeout time.Duration) (Response, error) {
	head, err := r.head()
	if err != nil {
		return Response{}, err
	}
	var ms int32
	switch {
	case timeout < 0:
		return Response{}, newHTTPError(abi.Invalid, "the timeout of a request is negative")
	case timeout > 0:
		ms = int32(min(max(1, timeout.Milliseconds()), math.MaxInt32)) // the host takes 0 for the time left
	}
	answer := abi.HTTPSend(head, r.Body, ms)
	if answer < 100 || answer > 599 {
		return Response{}, newHTTPError(answer, string(abi.HTTPRead(abi.PartError)))
	}
	headers := map[string][]string{}
	for line := range strings.Lines(string(abi.HTTPRead(abi.PartHead))) {
		if name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); found {
			headers[name] = append(headers[name], value)
		}
	}
	return Response{int(answer), r.URL, headers, abi.HTTPRead(abi.PartBody)}, nil
}

// head is method, URL and headers as the host reads them.
func (r Request) head() (string, error) {
	method := r.method()
	if strings.ContainsFunc(method, isNotVisible) {
		return "", newHTTPError(abi.Invalid, fmt.Sprintf("%q is no method", method))
	}
	if strings.ContainsFunc(r.URL, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) }) {
		return "", newHTTPError(abi.Invalid, "the URL has a space or a control character")
	}
	head := head{}
	seen := map[string]bool{}
	for _, written := range slices.Sorted(maps.Keys(r.Headers)) {
		name := strings.ToLower(written)
		head.line(name, r.Headers[written])
		if head.forged || seen[name] {
			return "", newHTTPError(abi.Invalid, fmt.Sprintf("the header %q stands there twice, or has a name or a value that none can have", written))
		}
		seen[name] = true
	}
	return method + " " + r.URL + "\n" + head.block.String(), nil
}

func (r Request) method() string {
	if r.Method == "" {
		return "GET"
	}
	return r.Method
}

// Header is what a header is set to, the name in any case; empty if it is not.
func (r Request) Header(name string) string {
	for other, value := range r.Headers {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

func isNotVisible(c rune) bool { return c <= ' ' || c > '~' }
