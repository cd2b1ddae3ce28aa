package duebox_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

// FuzzRedirect: whatever a server writes into Location, a redirect leads where net/url says or is not followed, a
// plain one is followed, and credentials stay with their origin. A body goes with its method.
func FuzzRedirect(f *testing.F) {
	for _, location := range []string{
		"https://other.example/x", "//other.example/x?y", "/x?y=1#z", "x", "../x:1/y", "?y", "", "#z",
		"https:other.example", "https:///other.example", "/\\other.example", "https://good.example\\@other.example",
		"ftp://other.example/", "/a b", "HTTPS://SHOP.EXAMPLE:8443/b", "http://[::1]:80/x", "https://u:p@shop.example:8443/",
		"https://shop.example:8443", "https://shop.example:84430/", "https://shop.example:8443.other.example/",
		"https://shop.example:8443@other.example/", "https://:80/", "https://%zz/", "mailto:a@b.example",
	} {
		for _, status := range []int{300, 301, 303, 307} {
			f.Add("a/b?c=1", location, status)
		}
	}
	f.Fuzz(func(t *testing.T, path, location string, status int) {
		const origin = "https://shop.example:8443"
		base, status := origin+"/"+path, 300+(status&15)
		was, err := url.Parse(base)
		if err != nil || !isPlain(path) {
			// The handler writes this one itself.
			t.Skip()
		}
		request := duebox.Request{
			Method: "POST", URL: base, Body: []byte("{}"),
			Headers: map[string]string{"authorization": "Bearer secret", "Cookie": "a=b", "content-type": "text/json"},
		}
		next, want := hop(request, status, location), destination(was, status, location)
		if next == nil {
			if want != nil && isPlain(location) {
				t.Fatalf("%d to %q after %q is not followed; it leads to %q", status, location, base, want)
			}
			return
		}
		isOrigin := isOf(origin, next.URL)
		for _, name := range []string{"authorization", "cookie"} {
			if is := next.Headers[name] != ""; is != isOrigin {
				t.Fatalf("%s for %q is sent to %q: %v", name, base, next.URL, is)
			}
		}
		isPost := status > 303
		if (next.Method == "POST") != isPost || (next.Body != nil) != isPost || (next.Headers["content-type"] != "") != isPost {
			t.Fatalf("%d leads to %+v", status, next)
		}
		if strings.ContainsAny(next.URL, " \t\r\n#\\") {
			t.Fatalf("%q leads to %q", location, next.URL)
		}
		is, err := url.Parse(next.URL)
		if _, unread := url.Parse(location); unread != nil && isRedirect(status) {
			// net/url cannot say where it leads. Its origin was judged above.
			return
		}
		if err != nil {
			t.Fatalf("%q leads to %q: %v", location, next.URL, err)
		}
		if want == nil || parts(was.ResolveReference(is)) != parts(want) {
			t.Fatalf("%d to %q after %q leads to %q, not to %v", status, location, base, next.URL, want)
		}
	})
}

// destination is where net/url says that a redirect leads; nil if it leads nowhere.
func destination(was *url.URL, status int, location string) *url.URL {
	if !isRedirect(status) {
		return nil
	}
	to, err := url.Parse(location)
	if err != nil || strings.HasPrefix(location, "//") && to.Host == "" {
		return nil
	}
	to.Fragment, to.RawFragment = "", ""
	want := was.ResolveReference(to)
	if want.Fragment, want.RawFragment = "", ""; want.Hostname() == "" || want.Opaque != "" {
		return nil
	}
	if want.Scheme != "http" && want.Scheme != "https" {
		return nil
	}
	return want
}

// parts is what makes a URL another one. net/url writes one path with different escapes.
func parts(of *url.URL) [5]string {
	slashes := strings.Repeat("/", strings.Count(strings.ToLower(of.EscapedPath()), "%2f"))
	return [5]string{of.Scheme, of.User.String() + "@" + of.Host, of.Path, slashes, of.RawQuery}
}

func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// isPlain reports whether no part of it is doubtful: such a Location must be followed.
func isPlain(location string) bool {
	return !strings.ContainsFunc(location, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' })
}

// isOf reports whether a URL begins with an origin, in any letter case.
func isOf(origin, of string) bool {
	if len(of) < len(origin) || !strings.EqualFold(of[:len(origin)], origin) {
		return false
	}
	rest := of[len(origin):]
	return rest == "" || rest[0] == '/' || rest[0] == '?'
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
