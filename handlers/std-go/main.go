// Command std-go runs the steps of a test with Go's standard library: it reads and tries to change files with
// os, and calls servers with net/http over dueboxhttp. The steps are in the header "script", as for echo-go;
// tests/conformance/README.md describes each.
//
// Invariant: a refusal is logged and does not end the job, so that one job can try everything.
package main

import (
	"net/http"
	"strings"

	"duebox.dev/duebox"
	"duebox.dev/duebox/dueboxhttp"
)

func init() { duebox.Handle(handle) }

func main() {}

func handle(job *duebox.Job) duebox.Verdict {
	client := &http.Client{Transport: dueboxhttp.Transport{}}
	script, _ := job.Header("script")
	for line := range strings.SplitSeq(script, "; ") {
		step, rest, _ := strings.Cut(line, " ")
		first, second, _ := strings.Cut(rest, " ")
		text, err, known := read(step, first)
		if !known {
			text, err, known = change(step, first, second)
		}
		if !known {
			text, err, known = send(client, step, first, second)
		}
		switch {
		case !known:
			return duebox.Dropf("unknown step %q", step)
		case err != nil:
			duebox.Infof("refused: %v", err)
		default:
			duebox.Infof("%s", text)
		}
	}
	return duebox.Ack()
}
