package duebox

import (
	"fmt"

	"duebox.dev/duebox/internal/abi"
)

// A Level is the severity of a log line.
type Level = abi.Level

// The levels, most severe first.
const (
	LevelError = abi.LevelError // a failure
	LevelWarn  = abi.LevelWarn  // something unexpected
	LevelInfo  = abi.LevelInfo  // what the handler did
	LevelDebug = abi.LevelDebug // details for debugging
	LevelTrace = abi.LevelTrace // every step
)

// Log writes one log line. It appears in the daemon's log with topic, job and attempt. Lines beyond the
// topic's limit (sandbox.log) are dropped and counted. Standard output and standard error of a handler are
// logged too, at levels info and warn.
func Log(level Level, text string) { abi.Log(level, text) }

// Errorf logs at level error, formatted as by fmt.Sprintf.
func Errorf(format string, values ...any) { Log(LevelError, fmt.Sprintf(format, values...)) }

// Warnf logs at level warn, formatted as by fmt.Sprintf.
func Warnf(format string, values ...any) { Log(LevelWarn, fmt.Sprintf(format, values...)) }

// Infof logs at level info, formatted as by fmt.Sprintf.
func Infof(format string, values ...any) { Log(LevelInfo, fmt.Sprintf(format, values...)) }

// Debugf logs at level debug, formatted as by fmt.Sprintf.
func Debugf(format string, values ...any) { Log(LevelDebug, fmt.Sprintf(format, values...)) }

// Tracef logs at level trace, formatted as by fmt.Sprintf.
func Tracef(format string, values ...any) { Log(LevelTrace, fmt.Sprintf(format, values...)) }
