package duebox_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

// FuzzRedirect: whatever a server writes into Location, a redirect leads where the URL standard says or is not
// followed, and credentials stay with their origin.
func FuzzRedirect(f *testing.F) {
	for _, location := range []string{
		"https://other.example/x", "//other.example/x?y", "/x?y=1#z", "x", "../x:1/y", "?y", "", "#z",
		"https:other.example", "https:///other.example", "/\\other.example", "https://good.example\\@other.example",
		"ftp://other.example/", "/a b", "HTTPS://SHOP.EXAMPLE:8443/b", "http://[::1]:80/x", "https://u:p@shop.example:8443/",
	} {
		f.Add("a/b?c=1", location, 307)
	}
	f.Fuzz(func(t *testing.T, path, location string, status int) {
		base := "https://shop.example:8443/" + path
		was, err := url.Parse(base)
		if err != nil {
			t.Skip()
		}
		request := duebox.Request{URL: base, Headers: map[string]string{"authorization": "Bearer secret"}}
		next := hop(request, 300+(status&15), location)
		if next == nil {
			return
		}
		if strings.ContainsAny(next.URL, " \t\r\n#\\") {
			t.Fatalf("%q leads to %q", location, next.URL)
		}
		is, err := url.Parse(next.URL)
		if err != nil {
			// The host refuses it, as net/url does.
			return
		}
		if is.Host == "" || !strings.EqualFold(is.Scheme, "http") && !strings.EqualFold(is.Scheme, "https") {
			t.Fatalf("%q leads to %q", location, next.URL)
		}
		isSame := strings.EqualFold(is.Host, was.Host) && is.Scheme == was.Scheme && is.User == nil
		if next.Headers["authorization"] != "" && !isSame {
			t.Fatalf("credentials for %q are sent to %q", base, next.URL)
		}
		if to, err := url.Parse(location); err == nil {
			to.Fragment, to.RawFragment = "", ""
			if want := was.ResolveReference(to); was.ResolveReference(is).String() != want.String() {
				t.Fatalf("%q after %q leads to %q, not to %q", location, base, next.URL, want)
			}
		}
	})
}

// FuzzResponse: whatever a server answers, its verdict is one, and a wait that it asks for is not negative.
func FuzzResponse(f *testing.F) {
	for _, wait := range []string{
		"0", "120", "4294967296", "-1", "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994", "Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		f.Add(303, wait, []byte(`{"a":[1,null]}`))
	}
	f.Fuzz(func(t *testing.T, status int, wait string, body []byte) {
		if strings.ContainsAny(wait, "\r\n") {
			t.Skip()
		}
		server := func(duebox.Request) (duebox.Response, error) {
			headers := map[string][]string{"retry-after": {wait}}
			return duebox.Response{Status: 200 + int(uint(status)%400), Headers: headers, Body: body}, nil
		}
		dueboxtest.Job{Server: server}.Run(func(job *duebox.Job) duebox.Verdict {
			response, err := job.Send(duebox.Request{URL: "https://shop.example/"})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(response.Body, body) {
				t.Fatalf("%q became %q", body, response.Body)
			}
			if wait, found := response.RetryAfter(); found && wait < 0 {
				t.Fatal(wait)
			}
			var value any
			if response.JSON(&value) == nil != json.Valid(body) {
				t.Fatalf("%q", body)
			}
			if response.Verdict().String() == "" {
				t.Fatal(response.Status)
			}
			return duebox.Ack()
		})
	})
}

// FuzzJob: a handler reads any payload and headers as they were pushed.
func FuzzJob(f *testing.F) {
	f.Add([]byte(`{"order":42}`), "trace", "t-1", 3)
	f.Add([]byte("\xff\x00"), "a: b", "c: d", -1)
	f.Fuzz(func(t *testing.T, payload []byte, name, value string, offset int) {
		// The queue refuses such headers.
		if strings.ContainsAny(name, "\r\n:") || strings.ContainsAny(value, "\r\n") {
			t.Skip()
		}
		test := dueboxtest.Job{Payload: string(payload), Headers: map[string]string{name: value}}
		test.Run(func(job *duebox.Job) duebox.Verdict {
			if !bytes.Equal(job.Payload(), payload) || job.PayloadLen() != len(payload) {
				t.Fatalf("%q became %q", payload, job.Payload())
			}
			if text, err := job.Text(); (err == nil) != utf8.Valid(payload) || err == nil && text != string(payload) {
				t.Fatal(text, err)
			}
			if offset >= 0 {
				var part [4]byte
				read := job.ReadPayload(offset, part[:])
				if want := payload[min(offset, len(payload)):]; !bytes.Equal(part[:read], want[:min(4, len(want))]) {
					t.Fatal(offset, read)
				}
			}
			if found, ok := job.Header(name); !ok || found != value {
				t.Fatalf("%q: %q became %q", name, value, job.Headers())
			}
			return duebox.Ack()
		})
	})
}
