//go:build wasip1

package duebox

// handle is the module's entry; see docs/reference/abi.md. It is linked into every handler.
//
//go:wasmexport handle
func handle(payloadLen uint32) int32 { return run(payloadLen) }
