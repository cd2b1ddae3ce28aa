//go:build !wasip1

package dueboxtest

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"duebox.dev/duebox"
	"duebox.dev/duebox/internal/abi"
)

// answer is the test host's response to a request: a status or an error code, and its parts.
func (j Job) answer(request duebox.Request) (int32, map[abi.Part][]byte) {
	if j.Server == nil {
		return abi.Unavailable, map[abi.Part][]byte{
			abi.PartError: []byte("this test has no server; set the field Server of dueboxtest.Job"),
		}
	}
	response, err := j.Server(request)
	if err != nil {
		return codeOf(err), map[abi.Part][]byte{abi.PartError: []byte(err.Error())}
	}
	head := ""
	for _, name := range slices.Sorted(maps.Keys(response.Headers)) {
		for _, value := range response.Headers[name] {
			head += strings.ToLower(name) + ": " + value + "\n"
		}
	}
	return int32(response.Status), map[abi.Part][]byte{abi.PartHead: []byte(head), abi.PartBody: response.Body}
}

func codeOf(err error) int32 {
	for kind, code := range map[error]int32{
		duebox.ErrHTTPDenied: abi.Denied, duebox.ErrHTTPInvalid: abi.Invalid,
		duebox.ErrHTTPTooLarge: abi.TooLarge, duebox.ErrHTTPTimeout: abi.Timeout,
	} {
		if errors.Is(err, kind) {
			return code
		}
	}
	return abi.Unavailable
}

// requestOf parses the request from a head that the SDK wrote.
func requestOf(head string, body []byte) duebox.Request {
	first, rest, _ := strings.Cut(head, "\n")
	method, url, _ := strings.Cut(first, " ")
	request := duebox.Request{Method: method, URL: url, Headers: map[string]string{}, Body: bytes.Clone(body)}
	for line := range strings.Lines(rest) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		request.Headers[name] = value
	}
	return request
}
