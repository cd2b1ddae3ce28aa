package main

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"duebox.dev/duebox"
)

// network runs the steps that send requests and read the last response.
type network struct{ last duebox.Response }

// step runs a step; it returns false for a step that is not of this file.
func (n *network) step(job *duebox.Job, step, rest string) bool {
	switch step {
	case "send":
		if err := n.send(job, rest); err != nil {
			duebox.Infof("failed %s", kind(err))
		}
	case "header":
		if values := n.last.Headers[strings.ToLower(rest)]; values != nil {
			duebox.Infof("header %s=%s", rest, n.last.Header(rest))
		} else {
			duebox.Infof("header %s absent", rest)
		}
	case "names":
		duebox.Infof("names %d", len(n.last.Headers[rest]))
	case "body":
		if utf8.Valid(n.last.Body) {
			duebox.Infof("body %s", n.last.Body)
		} else {
			duebox.Infof("the body is not UTF-8")
		}
	case "hex":
		duebox.Infof("hex %x", n.last.Body)
	case "sum":
		sum := uint32(0)
		for _, b := range n.last.Body {
			sum = sum*31 + uint32(b)
		}
		duebox.Infof("sum %d", sum)
	case "json":
		item := struct {
			Name  *string `json:"name"`
			Count *uint32 `json:"count"`
		}{}
		if err := n.last.JSON(&item); err != nil || item.Name == nil || item.Count == nil {
			duebox.Infof("the body is not the expected JSON")
		} else {
			duebox.Infof("json name=%s count=%d", *item.Name, *item.Count)
		}
	case "url":
		duebox.Infof("url %s", n.last.URL)
	default:
		return false
	}
	return true
}

func (n *network) send(job *duebox.Job, rest string) error {
	response, err := job.Send(request(job, rest))
	if err == nil {
		duebox.Infof("answered %d, %d bytes", response.Status, len(response.Body))
		n.last = response
	}
	return err
}

func kind(err error) string {
	for kind, name := range map[error]string{
		duebox.ErrHTTPDenied: "denied", duebox.ErrHTTPInvalid: "invalid", duebox.ErrHTTPTooLarge: "too large",
		duebox.ErrHTTPTimeout: "timeout", duebox.ErrHTTPUnavailable: "unavailable",
	} {
		if errors.Is(err, kind) {
			return name
		}
	}
	return err.Error()
}

// request parses "METHOD URL|name=value|…". The value "$" stands for the payload.
func request(job *duebox.Job, rest string) duebox.Request {
	first, more, _ := strings.Cut(rest, "|")
	method, url, _ := strings.Cut(first, " ")
	request := duebox.Request{Method: method, URL: url, Headers: map[string]string{}}
	for part := range strings.SplitSeq(more, "|") {
		name, value, _ := strings.Cut(part, "=")
		if value == "$" {
			value = string(job.Payload())
		}
		switch name {
		case "":
		case "body":
			request.Body = []byte(value)
		case "size":
			request.Body = bytes.Repeat([]byte("x"), int(number(value)))
		case "timeout":
			request.Timeout = span(value)
		case "follow":
			request.Follow = int(number(value))
		default:
			request.Headers[strings.TrimPrefix(name, "h.")] = value
		}
	}
	return request
}
