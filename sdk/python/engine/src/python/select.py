"""The module `select` of a system without files and sockets, for the modules of the standard library that import it."""

error = OSError
PIPE_BUF = 512


def select(rlist, wlist, xlist, timeout=None, /):
    raise OSError("select does not work in a Duebox handler, which has no files and no sockets; use http of duebox")
