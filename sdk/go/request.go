package duebox

import (
	"encoding/json"
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

// A Request goes to a host that the topic grants (sandbox.http). The host adds headers to it:
// "Idempotency-Key: TOPIC/ID", which is the same in every attempt of the job, "Duebox-Attempt", "traceparent"
// and "User-Agent". A handler may set its own, except for Duebox-Attempt. A job that writes more than once to
// one server should give each write its own key.
type Request struct {
	Method  string            // GET if empty
	URL     string            // an absolute http or https URL without user information
	Headers map[string]string // names of letters, digits and . _ - in any case
	Body    []byte
	// Timeout limits the whole exchange, redirects included; at least 1 ms. Zero means the job's remaining time,
	// which is also the maximum.
	Timeout time.Duration
	// Follow is the number of redirects to follow. Each hop must be granted like the first. A 303, and a 301 or
	// 302 in response to a POST, is followed by a GET without body. Authorization and Cookie are not sent to
	// another origin; other headers are. A redirect that is not followed, or one too many, is the response.
	Follow int
}

// Why a request has no response. The error's text is the host's message; use errors.Is to find its kind.
var (
	ErrHTTPDenied      = errors.New("the topic does not grant this host, or its address is private; sandbox.http and sandbox.http_private grant it")
	ErrHTTPInvalid     = errors.New("the method, the URL or a header is invalid")
	ErrHTTPTooLarge    = errors.New("the response is larger than the topic allows (sandbox.http_body), or the request is too large")
	ErrHTTPTimeout     = errors.New("the request's timeout passed before the response was complete")
	ErrHTTPUnavailable = errors.New("the server cannot be reached, or it closed the connection")
)

// httpError is one of the errors above with the host's message.
type httpError struct {
	kind error
	why  string
}

func (e *httpError) Error() string { return e.why }
func (e *httpError) Unwrap() error { return e.kind }

// Timeout reports whether the standard library should treat the error as a timeout.
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

// Send sends a request and waits for the whole response, whatever its status. It fails if there is no
// response. For code that needs a net/http.Client, use package dueboxhttp.
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

// SendJSON is [Job.Send] with a value as JSON in place of the body, and with its content-type. It fails if
// json.Marshal does. The method is POST if it is empty.
func (j *Job) SendJSON(request Request, body any) (Response, error) {
	bytes, err := json.Marshal(body)
	if err != nil {
		return Response{}, err
	}
	headers := map[string]string{"content-type": "application/json"}
	for name, value := range request.Headers {
		headers[strings.ToLower(name)] = value
	}
	request.Headers, request.Body = headers, bytes
	if request.Method == "" {
		request.Method = "POST"
	}
	return j.Send(request)
}

// exchange sends one hop; without a timeout it may take the job's remaining time.
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
		ms = int32(min(max(1, timeout.Milliseconds()), math.MaxInt32)) // the host takes 0 as the remaining time
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

// head is method, URL and headers as a block for the host.
func (r Request) head() (string, error) {
	method := r.method()
	if strings.ContainsFunc(method, isNotVisible) {
		return "", newHTTPError(abi.Invalid, fmt.Sprintf("invalid method %q", method))
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
			return "", newHTTPError(abi.Invalid, fmt.Sprintf("the header %q is set twice, or has an invalid name or value", written))
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

// Header is the value of a header; the name is case-insensitive. It is empty if the header is not set.
func (r Request) Header(name string) string {
	for other, value := range r.Headers {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

func isNotVisible(c rune) bool { return c <= ' ' || c > '~' }
