module duebox.dev/bench/peers/delayqueue

go 1.24

require (
	duebox.dev/bench/peers/goprotocol v0.0.0
	github.com/hdt3213/delayqueue v1.0.6
	github.com/redis/go-redis/v9 v9.14.1
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/google/uuid v1.3.0 // indirect
)

replace duebox.dev/bench/peers/goprotocol => ../goprotocol
