package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"duebox.dev/duebox"
)

// send runs a step that calls a server or sets the timeout of the next call; it returns false for any other
// step.
func send(client *http.Client, step, first, second string) (text string, err error, known bool) {
	var response *http.Response
	switch step {
	case "timeout":
		client.Timeout, err = time.ParseDuration(first)
		return "within " + first, err, true
	case "get":
		response, err = client.Get(first)
	case "head":
		response, err = client.Head(first)
	case "post":
		response, err = client.Post(first, "text/plain", strings.NewReader(second))
	default:
		return "", nil, false
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", kind(err), err), true
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	text = fmt.Sprintf("%s at %s, length %d, by %q as %q, %d cookies: %.40s", response.Status,
		response.Request.URL.Path, response.ContentLength, response.Header.Get("Echo-Method"),
		response.Header.Get("Echo-Content-Type"), len(response.Cookies()), body)
	return text, err, true
}

// kind names an error by the errors of the SDK and of net/http.
func kind(err error) string {
	late, isTimeout := err.(interface{ Timeout() bool })
	switch {
	case errors.Is(err, duebox.ErrHTTPDenied):
		return "denied"
	case isTimeout && late.Timeout():
		return "late"
	case errors.Is(err, duebox.ErrHTTPTooLarge):
		return "too large"
	case errors.Is(err, duebox.ErrHTTPUnavailable):
		return "unavailable"
	default:
		return "odd"
	}
}
