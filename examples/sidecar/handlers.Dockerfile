# An image of compiled handlers, which the init container of k8s/shop.yaml copies into the pod. Compile them first;
# then, at the top of the repository:
#
#   docker build -f examples/sidecar/handlers.Dockerfile -t registry.example/shop-handlers:1 handlers/build
FROM busybox:1.37
COPY webhook.wasm /handlers/
USER 65532:65532
