module duebox.dev/duebox

go 1.24
