package duebox

import "duebox.dev/duebox/internal/abi"

// A Handler decides about one job.
type Handler func(job *Job) Verdict

var registered Handler

// Handle makes a function the module's handler. Call it once, in an init function: main does not run.
func Handle(handler Handler) {
	if handler == nil {
		panic("duebox.Handle was called with nil")
	}
	if registered != nil {
		panic("duebox.Handle was called twice; a module has one handler")
	}
	registered = handler
}

// run runs the registered handler on the job that the host passes in.
func run(payloadLen uint32) int32 {
	if registered == nil {
		panic("this module has no handler; call duebox.Handle in an init function")
	}
	defer reportPanic()
	return registered(&Job{payloadLen: payloadLen}).settle()
}

// reportPanic passes a panic's message to the host as the reason; the panic continues and traps.
func reportPanic() {
	switch cause := recover().(type) {
	case nil:
	case error:
		abi.Reason("panic: " + cause.Error())
		panic(cause)
	case string:
		abi.Reason("panic: " + cause)
		panic(cause)
	default:
		abi.Reason("panic; its value is in the log")
		panic(cause)
	}
}
