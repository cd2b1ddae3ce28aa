module duebox.dev/bench/peers/goprotocol

go 1.24
