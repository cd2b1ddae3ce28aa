package main

import (
	"fmt"
	"os"
	"strings"
)

// read runs a step that reads; it returns false for any other step.
func read(step, path string) (text string, err error, known bool) {
	switch step {
	case "read":
		content, err := os.ReadFile(path)
		return fmt.Sprintf("%d bytes: %.40s", len(content), content), err, true
	case "list":
		entries, err := os.ReadDir(path)
		names := make([]string, len(entries))
		for i, entry := range entries {
			names[i] = entry.Name()
		}
		return strings.Join(names, " "), err, true
	case "stat":
		info, err := os.Stat(path)
		if err != nil {
			return "", err, true
		}
		return fmt.Sprintf("%d bytes, folder %t", info.Size(), info.IsDir()), nil, true
	}
	return "", nil, false
}

// change runs a step that writes; it returns false for any other step.
func change(step, path, other string) (text string, err error, known bool) {
	switch step {
	case "write":
		err = os.WriteFile(path, []byte(other), 0o644)
	case "append":
		err = appendTo(path, other)
	case "truncate":
		err = os.Truncate(path, 0)
	case "touch":
		err = touch(path)
	case "mkdir":
		err = os.Mkdir(path, 0o755)
	case "remove":
		err = os.Remove(path)
	case "rename":
		err = os.Rename(path, other)
	case "link":
		err = os.Link(path, other)
	case "symlink":
		err = os.Symlink(path, other)
	default:
		return "", nil, false
	}
	return step + " was done", err, true
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(text)
	return err
}

// touch sets the times of a file to its present ones.
func touch(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Chtimes(path, info.ModTime(), info.ModTime())
}
