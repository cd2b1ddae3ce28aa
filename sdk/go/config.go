package duebox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"duebox.dev/duebox/internal/abi"
)

// Config is a configuration value or secret of the topic, and whether it exists: strings as they are, other
// values as JSON text.
func (j *Job) Config(name string) (value string, found bool) { return abi.ConfigRead(name) }

// ConfigInt is a configuration value as an integer; fallback if it does not exist. It fails if the value is
// something else.
func (j *Job) ConfigInt(name string, fallback int64) (int64, error) {
	return parsed(name, fallback, func(text string) (int64, error) {
		return strconv.ParseInt(text, 10, 64)
	})
}

// ConfigFloat is a configuration value as a number; fallback if it does not exist. It fails if the value is
// something else.
func (j *Job) ConfigFloat(name string, fallback float64) (float64, error) {
	return parsed(name, fallback, func(text string) (float64, error) {
		return strconv.ParseFloat(text, 64)
	})
}

// ConfigBool is a configuration value as a bool; fallback if it does not exist. It fails if the value is
// something else.
func (j *Job) ConfigBool(name string, fallback bool) (bool, error) {
	return parsed(name, fallback, func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, errors.New("neither true nor false")
		}
		return text == "true", nil
	})
}

// ConfigJSON reads a configuration value that is a table or an array, as json.Unmarshal does, and reports
// whether it exists.
func (j *Job) ConfigJSON(name string, into any) (found bool, err error) {
	text, found := abi.ConfigRead(name)
	if !found {
		return false, nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return true, refused(name, errors.New("not the JSON expected"))
	}
	return true, nil
}

func parsed[T any](name string, fallback T, parse func(string) (T, error)) (T, error) {
	text, found := abi.ConfigRead(name)
	if !found {
		return fallback, nil
	}
	value, err := parse(text)
	if err != nil {
		// strconv quotes the value in its message; the value may be a secret.
		if number := new(strconv.NumError); errors.As(err, &number) {
			err = number.Err
		}
		return fallback, refused(name, err)
	}
	return value, nil
}

func refused(name string, why error) error {
	return fmt.Errorf("the configuration value %q cannot be used: %w", name, why)
}
