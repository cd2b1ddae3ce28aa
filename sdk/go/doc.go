// Package duebox is for writing Duebox handlers in Go: a function that takes a [Job] and returns a
// [Verdict], registered with [Handle] in an init function.
//
//	package main
//
//	import "duebox.dev/duebox"
//
//	func init() {
//		duebox.Handle(func(job *duebox.Job) duebox.Verdict {
//			duebox.Infof("closing order %s in attempt %d", job.ID(), job.Attempt())
//			return duebox.Ack()
//		})
//	}
//
//	func main() {}
//
// Build it as a library for wasip1; main never runs:
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags=-w -o handler.wasm
//
// The layers are: your function → [Job], [Verdict] and the log functions → internal/abi, which calls the
// imports of docs/reference/abi.md. On other targets package dueboxtest provides these imports, so that handlers compile
// and are tested natively.
package duebox
