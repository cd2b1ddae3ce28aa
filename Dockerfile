# syntax=docker/dockerfile:1
#
# A small image of the daemon: one binary, the C library and certificates. It runs without root on a read-only root file
# system and contains no shell. docs/guide/operations.md describes how to deploy it.
#
#   docker build -t duebox .
#   docker run --read-only --tmpfs /var/cache/duebox:mode=1777 -v ./config:/etc/duebox:ro duebox
#
# ./config is a folder with duebox.toml and the modules: the daemon sees changes in a mounted folder, but not of a
# mounted file.
#
# With the engine of handlers in Python (26 MB): docker build --target python -t duebox:python .
# With a Redis inside, too, to try it out: docker build --target all-in-one -t duebox:all-in-one .
#   docker run --rm --name duebox -p 127.0.0.1:7280:7280 duebox:all-in-one    the page is at http://127.0.0.1:7280/
#   docker exec duebox duebox push hello Ada
#
# `duebox version --verbose` names the commit of the image: --build-arg DUEBOX_COMMIT=$(git rev-parse HEAD), since the build has no Git.

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates clang redis-server \
    && rustup target add wasm32-unknown-unknown
WORKDIR /src
COPY . .
ARG DUEBOX_COMMIT=
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    --mount=type=cache,target=/src/sdk/javascript/target \
    --mount=type=cache,target=/src/sdk/python/target \
    sdk/javascript/build.sh \
    && sdk/python/build.sh \
    && DUEBOX_COMMIT=$DUEBOX_COMMIT cargo build --profile dist --locked -p duebox \
    && packaging/image/layout.sh /image target/dist/duebox \
    && packaging/image/layout.sh /python --python target/dist/duebox \
    && packaging/image/layout.sh /all-in-one --python target/dist/duebox /usr/bin/redis-server \
    && install -d -m 0700 /cache/duebox /data/duebox

# With a Redis that the daemon starts itself (redis.url = "managed"), its data in /var/lib/duebox.
FROM scratch AS all-in-one
COPY --from=build /all-in-one/ /
COPY --from=build --chown=65532:65532 /cache/ /var/cache/
COPY --from=build --chown=65532:65532 /data/ /var/lib/
COPY packaging/image/all-in-one.toml /etc/duebox/duebox.toml
COPY runner/src/cli/init/hello.ts /etc/duebox/hello.ts
USER 65532:65532
WORKDIR /var/lib/duebox
ENV PATH=/usr/local/bin \
    DUEBOX_MANIFEST=/etc/duebox/duebox.toml \
    XDG_CACHE_HOME=/var/cache
VOLUME /var/lib/duebox
EXPOSE 7280 7281
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/duebox"]
CMD ["run"]

FROM scratch AS runtime
# The cache of compiled modules: the only folder that the daemon writes.
COPY --from=build --chown=65532:65532 /cache/ /var/cache/

# A numeric user, so that Kubernetes can verify that it is not root.
USER 65532:65532
WORKDIR /etc/duebox
ENV PATH=/usr/local/bin \
    DUEBOX_MANIFEST=/etc/duebox/duebox.toml \
    XDG_CACHE_HOME=/var/cache

# The API listens on loopback by default; probes and metrics have an address of their own.
EXPOSE 7280 7281

# As the readiness probe of a sidecar: an invalid manifest on disk, or a refused module, does not take it out of service.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/usr/local/bin/duebox", "health", "--probe", "ready", "--exclude", "manifest", "--exclude", "modules"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/duebox"]
CMD ["run"]

FROM runtime AS python
COPY --from=build /python/ /

FROM runtime
COPY --from=build /image/ /
