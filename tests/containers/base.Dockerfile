# Stands in for a published Python image where none can be pulled: Debian by debootstrap, and its Python.
FROM headrace-test/debian:bookworm
COPY certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY apt.conf /etc/apt/apt.conf.d/99host
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl python-is-python3 python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# The packages' own certificates have taken the place of the host's, which may know a company's.
COPY certificates.crt /etc/ssl/certs/ca-certificates.crt
