//go:build !wasip1

package dueboxhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxhttp"
	"duebox.dev/duebox/dueboxtest"
)

// do runs a function as a handler with this server, and returns the requests sent.
func do(server func(duebox.Request) (duebox.Response, error), handle func(client *http.Client)) []duebox.Request {
	run := dueboxtest.Job{Server: server}.Run(func(*duebox.Job) duebox.Verdict {
		handle(&http.Client{Transport: dueboxhttp.Transport{}})
		return duebox.Ack()
	})
	return run.Requests
}

func TestARequestIsSentAndItsResponseComesBack(t *testing.T) {
	server := func(request duebox.Request) (duebox.Response, error) {
		headers := map[string][]string{"content-type": {"text/plain"}, "set-cookie": {"a=1", "b=2"}}
		return duebox.Response{Status: 201, Headers: headers, Body: []byte("echo " + string(request.Body))}, nil
	}
	sent := do(server, func(client *http.Client) {
		request, _ := http.NewRequest("PUT", "https://user:key@shop.example/a?b=c#d", strings.NewReader("hello"))
		request.Header["Accept"] = []string{"text/plain", "text/html"}
		request.AddCookie(&http.Cookie{Name: "x", Value: "1"})
		request.AddCookie(&http.Cookie{Name: "y", Value: "2"})
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != 201 || response.Status != "201 Created" || string(body) != "echo hello" ||
			response.Header.Get("Content-Type") != "text/plain" || len(response.Cookies()) != 2 {
			t.Error(response, string(body))
		}
	})
	if len(sent) != 1 || sent[0].Method != "PUT" || sent[0].URL != "https://shop.example/a?b=c" ||
		sent[0].Header("accept") != "text/plain, text/html" || sent[0].Header("cookie") != "x=1; y=2" ||
		!strings.HasPrefix(sent[0].Header("authorization"), "Basic ") {
		t.Error(sent)
	}
}

func TestAResponseToHeadHasTheLengthThatGetWouldHave(t *testing.T) {
	server := func(duebox.Request) (duebox.Response, error) {
		return duebox.Response{Status: 200, Headers: map[string][]string{"content-length": {"1000"}}}, nil
	}
	do(server, func(client *http.Client) {
		response, err := client.Head("https://shop.example/")
		if err != nil || response.ContentLength != 1000 {
			t.Error(response, err)
		}
	})
}

func TestTheClientFollowsRedirects(t *testing.T) {
	server := func(request duebox.Request) (duebox.Response, error) {
		if strings.HasSuffix(request.URL, "/a") {
			return duebox.Response{Status: 303, Headers: map[string][]string{"location": {"https://other.example/b"}}}, nil
		}
		return duebox.Response{Status: 200}, nil
	}
	sent := do(server, func(client *http.Client) {
		request, _ := http.NewRequest("POST", "https://shop.example/a", strings.NewReader("x"))
		request.Header.Set("Authorization", "Bearer x")
		if _, err := client.Do(request); err != nil {
			t.Error(err)
		}
	})
	if len(sent) != 2 || sent[1].Method != "GET" || sent[1].URL != "https://other.example/b" || sent[1].Header("authorization") != "" {
		t.Error(sent)
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	denied := func(duebox.Request) (duebox.Response, error) { return duebox.Response{}, duebox.ErrHTTPDenied }
	late := func(duebox.Request) (duebox.Response, error) { return duebox.Response{}, duebox.ErrHTTPTimeout }
	do(denied, func(client *http.Client) {
		if _, err := client.Get("https://shop.example/"); !errors.Is(err, duebox.ErrHTTPDenied) {
			t.Error(err)
		}
	})
	do(late, func(client *http.Client) {
		client.Timeout = time.Minute
		_, err := client.Get("https://shop.example/")
		timeout, isTimeout := err.(interface{ Timeout() bool })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, duebox.ErrHTTPTimeout) || !isTimeout || !timeout.Timeout() {
			t.Error(err)
		}
	})
}

func TestInvalidRequestsAreNotSent(t *testing.T) {
	server := func(duebox.Request) (duebox.Response, error) { return duebox.Response{Status: 200}, nil }
	sent := do(server, func(client *http.Client) {
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		request, _ := http.NewRequestWithContext(cancelled, "GET", "https://shop.example/", nil)
		if _, err := client.Do(request); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		request, _ = http.NewRequest("GET", "https://shop.example/", nil)
		request.Host = "other.example"
		if _, err := client.Do(request); !errors.Is(err, duebox.ErrHTTPInvalid) {
			t.Error(err)
		}
	})
	if sent != nil {
		t.Error(sent)
	}
}
