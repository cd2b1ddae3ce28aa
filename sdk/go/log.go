package duebox

import (
	"fmt"

	"duebox.dev/duebox/internal/abi"
)

// A Level is how much a log line matters.
type Level = abi.Level

// The levels, from the most to the least urgent.
const (
	LevelError = abi.LevelError // something is broken
	LevelWarn  = abi.LevelWarn  // something is odd
	LevelInfo  = abi.LevelInfo  // what was done
	LevelDebug = abi.LevelDebug // for whoever looks into a problem
	LevelTrace = abi.LevelTrace // every step
)

// Log writes one log line. It appears in the daemon's log with topic, job and attempt; lines over
// the topic's budget (sandbox.log) are dropped and counted. What a handler prints to standard output
// and standard error is logged too, as info and warn.
func Log(level Level, text string) { abi.Log(level, text) }

// Errorf logs what is broken, formatted as by fmt.Sprintf.
func Errorf(format string, values ...any) { Log(LevelError, fmt.Sprintf(format, values...)) }

// Warnf logs what is odd, formatted as by fmt.Sprintf.
func Warnf(format string, values ...any) { Log(LevelWarn, fmt.Sprintf(format, values...)) }

// Infof logs what was done, formatted as by fmt.Sprintf.
func Infof(format string, values ...any) { Log(LevelInfo, fmt.Sprintf(format, values...)) }

// Debugf logs for whoever looks into a problem, formatted as by fmt.Sprintf.
func Debugf(format string, values ...any) { Log(LevelDebug, fmt.Sprintf(format, values...)) }

// Tracef logs every step, formatted as by fmt.Sprintf.
func Tracef(format string, values ...any) { Log(LevelTrace, fmt.Sprintf(format, values...)) }
