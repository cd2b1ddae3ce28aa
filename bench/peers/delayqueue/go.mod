module duebox.dev/bench/peers/delayqueue

go 1.24

require (
	duebox.dev/bench/peers/goprotocol v0.0.0
	github.com/hdt3213/delayqueue v1.1.2
	github.com/redis/go-redis/v9 v9.14.1
)

replace duebox.dev/bench/peers/goprotocol => ../goprotocol
