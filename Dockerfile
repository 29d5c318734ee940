# Tidegate in an image: an unprivileged user, no compiler, no development packages.
#   docker build -t tidegate .
#   docker run -p 9092:9092 -p 8081:8081 -p 9644:9644 -v tidegate:/var/lib/tidegate \
#       -e TIDEGATE_CAPTURE__SHOP__POSTGRES=postgresql://user:password@host/shop tidegate
# The base needs Python 3.11 or newer with venv and, for the first stage, its headers.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements.lock requirements-runtime.lock ./
# Everything is installed by its hash: the builder's two packages, and what Tidegate needs to run.
RUN awk '/^[a-z]/ { wanted = /^(cython|setuptools)==/ } wanted' requirements.lock > build.lock \
    && python3 -m venv /build \
    && /build/bin/pip install --no-cache-dir --require-hashes --requirement build.lock \
    && python3 -m venv /opt/tidegate \
    && /opt/tidegate/bin/pip install --no-cache-dir --require-hashes --requirement requirements-runtime.lock
COPY pyproject.toml setup.py README.md LICENSE ./
COPY protocol protocol
COPY capture capture
COPY gateway gateway
COPY spark spark
RUN /build/bin/pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir /wheels . \
    && /opt/tidegate/bin/pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && /opt/tidegate/bin/tidegate version

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="Tidegate" \
      org.opencontainers.image.description="Kafka consumers read your Postgres changes, and there is no Kafka." \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 tidegate \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin tidegate \
    && install -d -o tidegate -g tidegate /var/lib/tidegate
COPY --from=build /opt/tidegate /opt/tidegate
ENV PATH=/opt/tidegate/bin:$PATH \
    TIDEGATE_LOG__DATA=/var/lib/tidegate \
    TIDEGATE_GATEWAY__KAFKA=0.0.0.0:9092 \
    TIDEGATE_GATEWAY__REGISTRY=0.0.0.0:8081 \
    TIDEGATE_GATEWAY__ADMIN=0.0.0.0:9644 \
    TIDEGATE_GATEWAY__ADVERTISED=localhost:9092
USER tidegate
WORKDIR /var/lib/tidegate
VOLUME /var/lib/tidegate
EXPOSE 9092 8081 9644
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9644/health', timeout=4)"]
ENTRYPOINT ["tidegate"]
CMD ["serve"]
