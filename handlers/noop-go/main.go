// Command noop-go is the smallest handler of the Go SDK: it acks and looks at nothing. Benchmarks run
// it, so what it costs is what Go and Duebox cost.
package main

import "duebox.dev/duebox"

func init() {
	duebox.Handle(func(*duebox.Job) duebox.Verdict { return duebox.Ack() })
}

func main() {}
