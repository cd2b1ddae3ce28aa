# syntax=docker/dockerfile:1
#
# A small image of the daemon: glibc, certificates and one binary. It runs without root on a read-only root
# file system and contains no shell. docs/guide/operations.md describes how to deploy it.
#
#   docker build -t duebox .
#   docker run --read-only --tmpfs /var/cache/duebox:mode=0700,uid=65532 \
#     -v ./duebox.toml:/etc/duebox/duebox.toml:ro -v ./handlers:/etc/duebox/handlers:ro duebox

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked -p duebox \
    && install -D -m 0755 target/release/duebox /image/usr/local/bin/duebox \
    && install -d -m 0755 /image/etc/duebox \
    && install -d -m 0700 /cache/duebox

# glibc, libgcc, certificates, time zones and no shell.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /image/ /
# The cache of compiled modules: the only folder that the daemon writes.
COPY --from=build --chown=65532:65532 /cache/ /var/cache/

# A numeric user, so that Kubernetes can verify that it is not root.
USER 65532:65532
WORKDIR /etc/duebox
ENV DUEBOX_MANIFEST=/etc/duebox/duebox.toml \
    XDG_CACHE_HOME=/var/cache

# The API listens on loopback by default; probes and metrics have an address of their own.
EXPOSE 7280 7281

HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/duebox", "health", "--probe", "ready"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/duebox"]
CMD ["run"]
