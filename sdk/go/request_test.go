package duebox_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxtest"
)

func closeAtShop(job *duebox.Job) duebox.Verdict {
	url := "https://shop.example/orders/" + string(job.Payload())
	response, err := job.Send(duebox.Request{URL: url, Headers: map[string]string{"Accept": "application/json"}})
	if err != nil {
		return duebox.Nack(err.Error())
	}
	var order struct {
		Paid bool `json:"paid"`
	}
	if err := response.JSON(&order); err != nil {
		return duebox.Nack(err.Error())
	}
	if order.Paid {
		return duebox.Ack()
	}
	closing := duebox.Request{Method: "POST", URL: url + "/close", Body: []byte("unpaid"), Timeout: 5 * time.Second}
	response, err = job.Send(closing)
	if err != nil {
		return duebox.Nack(err.Error())
	}
	return response.Verdict()
}

func shop(request duebox.Request) (duebox.Response, error) {
	duebox.Infof("%s %s", request.Method, request.URL)
	if request.Method == "GET" {
		return duebox.Response{Status: 200, Body: []byte(`{"paid":false}`)}, nil
	}
	return duebox.Response{Status: 204}, nil
}

func TestRequestsAreSentAsBuiltAndResponsesComeBack(t *testing.T) {
	run := dueboxtest.Job{Payload: "42", Server: shop}.Run(closeAtShop)
	if run.Verdict != duebox.Ack() || len(run.Requests) != 2 || len(run.Lines) != 2 {
		t.Fatal(run)
	}
	asked, closed := run.Requests[0], run.Requests[1]
	if asked.Method != "GET" || asked.Header("ACCEPT") != "application/json" || asked.Header("absent") != "" {
		t.Error(asked)
	}
	if closed.Method != "POST" || closed.URL != "https://shop.example/orders/42/close" || string(closed.Body) != "unpaid" {
		t.Error(closed)
	}
}

func TestAnErrorHasItsKindAndTheHostsMessage(t *testing.T) {
	run := dueboxtest.Job{Payload: "42"}.Run(closeAtShop)
	if run.Verdict.Reason() != "this test has no server; set the field Server of dueboxtest.Job" {
		t.Error(run)
	}
	for _, kind := range []error{
		duebox.ErrHTTPDenied, duebox.ErrHTTPInvalid, duebox.ErrHTTPTooLarge, duebox.ErrHTTPTimeout, duebox.ErrHTTPUnavailable,
	} {
		server := func(duebox.Request) (duebox.Response, error) {
			return duebox.Response{}, fmt.Errorf("%w: not today", kind)
		}
		dueboxtest.Job{Server: server}.Run(func(job *duebox.Job) duebox.Verdict {
			_, err := job.Send(duebox.Request{URL: "https://a/"})
			if !errors.Is(err, kind) || err.Error() != kind.Error()+": not today" {
				t.Error(kind, err)
			}
			return duebox.Ack()
		})
	}
}

func TestAnInvalidRequestIsRefused(t *testing.T) {
	header := func(name, value string) map[string]string { return map[string]string{name: value} }
	run := dueboxtest.Job{Server: shop}.Run(func(job *duebox.Job) duebox.Verdict {
		for _, bad := range []duebox.Request{
			{Method: "GET /", URL: "https://a/"},
			{URL: "https://a/\nx: y"},
			{URL: "https://a/ b"},
			{URL: "https://a/", Headers: header("a b", "c")},
			{URL: "https://a/", Headers: header("a", "b\r\nc: d")},
			{URL: "https://a/", Headers: header("a: b", "c")},
			{URL: "https://a/", Headers: map[string]string{"A": "1", "a": "2"}},
			{URL: "https://a/", Timeout: -1},
		} {
			if _, err := job.Send(bad); !errors.Is(err, duebox.ErrHTTPInvalid) {
				t.Error(bad, err)
			}
		}
		return duebox.Ack()
	})
	if run.Requests != nil {
		t.Error(run.Requests)
	}
}

// answered is the verdict of a response at Sun, 06 Nov 1994 08:49:37 GMT.
func answered(status int, retryAfter ...string) duebox.Verdict {
	response := duebox.Response{Status: status}
	if retryAfter != nil {
		response.Headers = map[string][]string{"retry-after": retryAfter}
	}
	var verdict duebox.Verdict
	dueboxtest.Job{Now: time.UnixMilli(784_111_777_000)}.Run(func(*duebox.Job) duebox.Verdict {
		verdict = response.Verdict()
		return verdict
	})
	return verdict
}

func TestAResponseLeadsToTheVerdictOfWebhooks(t *testing.T) {
	why := func(status int) string { return "the server answered " + strconv.Itoa(status) }
	for _, status := range []int{200, 201, 204, 299} {
		if answered(status) != duebox.Ack() {
			t.Error(status)
		}
	}
	for _, status := range []int{100, 301, 304, 408, 429, 500, 503, 599} {
		if answered(status) != duebox.Nack(why(status)) {
			t.Error(status)
		}
	}
	for _, status := range []int{400, 404, 410, 422, 499} {
		if answered(status) != duebox.Drop(why(status)) {
			t.Error(status)
		}
	}
	for value, wait := range map[string]time.Duration{
		"120": 2 * time.Minute, "0": 0, " 7 ": 7 * time.Second,
		"Sun, 06 Nov 1994 08:50:37 GMT":  time.Minute,
		"Sun, 06 Nov 1994 08:00:00 GMT":  0,
		"Sunday, 06-Nov-94 08:50:37 GMT": time.Minute,
		"Sun Nov  6 08:50:37 1994":       time.Minute,
	} {
		if verdict := answered(503, value); verdict != duebox.RetryAfter(wait, why(503)) {
			t.Error(value, verdict)
		}
	}
	for _, value := range []string{"soon", "-1", "1.5", "99999999999", ""} {
		if verdict := answered(429, value); verdict != duebox.Nack(why(429)) {
			t.Error(value, verdict)
		}
	}
}

func TestRedirectsAreFollowedUpToTheGivenNumber(t *testing.T) {
	chain := func(request duebox.Request) (duebox.Response, error) {
		hop, _ := strconv.Atoi(request.URL[strings.LastIndex(request.URL, "/")+1:])
		if hop == 3 {
			return duebox.Response{Status: 200}, nil
		}
		location := map[string][]string{"Location": {"/" + strconv.Itoa(hop+1)}}
		return duebox.Response{Status: 307, Headers: location}, nil
	}
	for follow, status := range map[int]int{0: 307, 2: 307, 3: 200, 9: 200} {
		run := dueboxtest.Job{Server: chain}.Run(func(job *duebox.Job) duebox.Verdict {
			response, err := job.Send(duebox.Request{URL: "https://a/0", Follow: follow, Timeout: time.Second})
			if err != nil || response.Status != status || response.URL != fmt.Sprintf("https://a/%d", min(follow, 3)) {
				t.Error(follow, response, err)
			}
			return duebox.Ack()
		})
		if len(run.Requests) != min(follow, 3)+1 {
			t.Error(follow, run.Requests)
		}
	}
}

// hop is the second request after a redirect; nil if it is not followed.
func hop(request duebox.Request, status int, location string) *duebox.Request {
	server := func(duebox.Request) (duebox.Response, error) {
		return duebox.Response{Status: status, Headers: map[string][]string{"location": {location}}}, nil
	}
	request.Follow = 1
	run := dueboxtest.Job{Server: server}.Run(func(job *duebox.Job) duebox.Verdict {
		if _, err := job.Send(request); err != nil {
			return duebox.Nack(err.Error())
		}
		return duebox.Ack()
	})
	if len(run.Requests) < 2 {
		return nil
	}
	return &run.Requests[1]
}

func TestALocationIsResolvedAgainstTheRequest(t *testing.T) {
	request := duebox.Request{URL: "https://shop.example:8443/a/b?c=1"}
	for location, want := range map[string]string{
		"https://other.example/x": "https://other.example/x",
		"//other.example/x?y":     "https://other.example/x?y",
		"/x?y=1#z":                "https://shop.example:8443/x?y=1",
		"x":                       "https://shop.example:8443/a/x",
		"../x:1/y":                "https://shop.example:8443/a/../x:1/y",
		"?y":                      "https://shop.example:8443/a/b?y",
		"":                        "https://shop.example:8443/a/b?c=1",
	} {
		if next := hop(request, 302, location); next == nil || next.URL != want {
			t.Error(location, next)
		}
	}
	if next := hop(duebox.Request{URL: "http://a?b/c"}, 302, "x"); next == nil || next.URL != "http://a/x" {
		t.Error(next)
	}
	for _, location := range []string{
		"https:other.example", "https:/other.example", "https:///other.example", "///other.example", "/\\other.example",
		"\\\\other.example", "https://good.example\\@other.example", "ftp://other.example/", "/a b",
		"https://user@", "https://user@@", "https://:443/",
	} {
		if next := hop(request, 302, location); next != nil {
			t.Error(location, next)
		}
	}
	if hop(request, 304, "/b") != nil {
		t.Error("304 is not a redirect")
	}
}

func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	request := duebox.Request{
		URL:     "https://shop.example/a",
		Headers: map[string]string{"Authorization": "Bearer x", "cookie": "a=b", "accept": "*/*"},
	}
	for location, kept := range map[string]int{
		"/b": 3, "https://SHOP.example/b": 3, "http://shop.example/b": 1, "https://shop.example:444/b": 1,
		"https://shop.example.other.example/b": 1, "//other.example/b": 1,
	} {
		if next := hop(request, 307, location); next == nil || len(next.Headers) != kept {
			t.Error(location, next)
		}
	}
	if len(request.Headers) != 3 {
		t.Error("the handler's own headers have changed")
	}
}

func TestMethodsChangeWithTheStatus(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
		want   string
	}{
		{"POST", 301, "GET"}, {"POST", 302, "GET"}, {"POST", 303, "GET"}, {"DELETE", 303, "GET"},
		{"POST", 307, "POST"}, {"POST", 308, "POST"}, {"PUT", 301, "PUT"}, {"PUT", 302, "PUT"}, {"HEAD", 303, "HEAD"},
	} {
		request := duebox.Request{Method: c.method, URL: "https://a/", Body: []byte("x"), Headers: map[string]string{"Content-Type": "text/plain"}}
		next := hop(request, c.status, "/b")
		isKept := c.method == c.want
		if next == nil || next.Method != c.want || (len(next.Body) == 1) != isKept || (len(next.Headers) == 1) != isKept {
			t.Error(c, next)
		}
	}
}

func TestALargeResponseIsReadWhole(t *testing.T) {
	for _, length := range []int{0, 1, 1023, 1024, 1025, 2048, 3_000_000} {
		body := bytes.Repeat([]byte("0123456789"), length/10+1)[:length]
		server := func(duebox.Request) (duebox.Response, error) { return duebox.Response{Status: 200, Body: body}, nil }
		dueboxtest.Job{Server: server}.Run(func(job *duebox.Job) duebox.Verdict {
			response, err := job.Send(duebox.Request{URL: "https://a/"})
			if err != nil || !bytes.Equal(response.Body, body) {
				t.Error(length, err, len(response.Body))
			}
			return duebox.Ack()
		})
	}
}
