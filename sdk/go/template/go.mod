module hello

go 1.24

require duebox.dev/duebox v0.0.0

replace duebox.dev/duebox => ..
