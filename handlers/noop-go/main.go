// Command noop-go is the smallest handler of the Go SDK: it acks without reading the job. Benchmarks run it
// to measure the cost of Go and of Duebox itself.
package main

import "duebox.dev/duebox"

func init() {
	duebox.Handle(func(*duebox.Job) duebox.Verdict { return duebox.Ack() })
}

func main() {}
