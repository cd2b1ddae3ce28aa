//go:build tools

// Package producers names the modules that programs of the documentation import, so that go.mod keeps them.
package producers

import (
	_ "github.com/hdt3213/delayqueue"
	_ "github.com/hibiken/asynq"
	_ "github.com/redis/go-redis/v9"
)
