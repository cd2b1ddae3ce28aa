// Package dueboxhttp lets code that is written for net/http call the hosts that the topic grants
// (sandbox.http):
//
//	client := &http.Client{Transport: dueboxhttp.Transport{}, Timeout: 5 * time.Second}
//	response, err := client.Get("https://api.shop.example/orders/42")
//
// It is a separate package because net/http adds megabytes to a module. A handler that only needs a request
// and its response calls Send of its job.
package dueboxhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"duebox.dev/duebox"
)

// Transport is an [http.RoundTripper] that sends requests through the host. It returns when the response is
// complete, and no other goroutine runs while it waits. A request that is cancelled meanwhile still waits for
// its deadline or the end of the job's time.
//
// The host keeps the connections and adds headers of its own; see [duebox.Request]. It follows no redirects
// (an [http.Client] does, and each hop must be granted like the first) and does not decompress bodies.
type Transport struct{}

// RoundTrip sends one request. The error is one of duebox.ErrHTTP… or the context's.
func (Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	sent, err := read(request)
	if err != nil {
		return nil, err
	}
	ctx := request.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if deadline, found := ctx.Deadline(); found {
		sent.Timeout = max(time.Millisecond, time.Until(deadline))
	}
	answer, err := duebox.NewJob(0).Send(sent)
	if errors.Is(err, duebox.ErrHTTPTimeout) {
		return nil, timeout{err}
	}
	if err != nil {
		return nil, err
	}
	return response(request, answer), nil
}

// timeout is an error that code for net/http recognises as a timeout.
type timeout struct{ error }

func (timeout) Timeout() bool        { return true }
func (t timeout) Unwrap() error      { return t.error }
func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }

// read converts the request for the host. It closes the body, as a RoundTripper must.
func read(request *http.Request) (duebox.Request, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		if err = errors.Join(err, request.Body.Close()); err != nil {
			return duebox.Request{}, fmt.Errorf("cannot read the request's body: %w", err)
		}
	}
	if request.Host != "" && request.Host != request.URL.Host {
		return duebox.Request{}, fmt.Errorf("%w: the host sets the header Host; it cannot be %q",
			duebox.ErrHTTPInvalid, request.Host)
	}
	headers := map[string]string{}
	for name, values := range request.Header {
		separator := ", "
		if strings.EqualFold(name, "Cookie") {
			separator = "; "
		}
		headers[name] = strings.Join(values, separator)
	}
	target := *request.URL
	target.Fragment, target.RawFragment = "", ""
	target.User = nil // http.Client has turned it into a header
	return duebox.Request{Method: request.Method, URL: target.String(), Headers: headers, Body: body}, nil
}

func response(request *http.Request, answer duebox.Response) *http.Response {
	headers := http.Header{}
	for name, values := range answer.Headers {
		headers[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	length := int64(len(answer.Body))
	if declared, err := strconv.ParseInt(answer.Header("content-length"), 10, 64); err == nil && request.Method == "HEAD" {
		length = declared
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)),
		StatusCode:    answer.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        headers,
		Body:          io.NopCloser(bytes.NewReader(answer.Body)),
		ContentLength: length,
		Request:       request,
	}
}
