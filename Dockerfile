# Targets: cpu, the last and so the default, and cuda (docs/deploy.md).
# docker build -t studio . && docker run --rm -p 7860:7860 -v studio-data:/data studio
FROM python:3.11-slim-bookworm AS build
ENV PATH=/opt/studio/bin:$PATH
WORKDIR /app
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends binutils && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/studio
# PyTorch's index of CPU wheels saves 4 GB: --build-arg TORCH_INDEX=<its address>.
ARG TORCH_INDEX=
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --no-compile ${TORCH_INDEX:+--index-url $TORCH_INDEX} "torch==2.11.*" "torchaudio==2.11.*"
COPY pyproject.toml constraints.txt setup.py MANIFEST.in README.md LICENSE ./
COPY studio studio
COPY assets assets
# Extras of pyproject.toml; `app,postgres,scale` for replicas (docs/scaling.md).
ARG EXTRAS=app,postgres
# Python compiles what is imported; pip would compile everything.
RUN pip install --no-cache-dir --no-compile --constraint constraints.txt ".[$EXTRAS]" \
    && python -P -c "import studio.engine.engine, studio.mos.service, studio.serve.app, studio.systems.combined, studio.ui.components"
# What nothing loads, 0.26 GB: tests, headers, symbols, Gradio's server for Node.js, pip.
RUN packages=$(python -P -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
    && find "$packages" -type d -name tests -prune -exec rm -r {} + \
    && rm -rf "$packages"/torch/include "$packages"/torch/bin/protoc* "$packages"/gradio/templates/node "$packages"/pip "$packages"/pip-* \
    && find "$packages" -type f "(" -name libtorch_cpu.so -o -name libtorch_python.so -o -name libllvmlite.so ")" -exec strip --strip-unneeded {} +

FROM python:3.11-slim-bookworm AS base
COPY --from=build /opt/studio /opt/studio
RUN useradd --create-home --uid 1000 studio && mkdir /data && chown studio /data
USER 1000
ENV PATH=/opt/studio/bin:$PATH NUMBA_CACHE_DIR=/home/studio/.cache/numba
# Kernels are compiled once, in the image, so that the first utterance starts without delay.
RUN python -c "import studio; [studio.synthesize('Ready.', voice=voice) for voice in ('wren', 'linnet', 'siskin')]"
ENV STUDIO_SERVE_TRACES_FOLDER=/data/traces
EXPOSE 7860
VOLUME /data
# A studio with a generated key answers 403: it runs.
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', 7860, timeout=5); c.request('GET', '/health', headers={'X-Studio-Key': os.environ.get('STUDIO_SERVE_KEY', '')}); sys.exit(c.getresponse().status not in (200, 403))"]
# The start prints a link with a key, which every page wants; STUDIO_SERVE_KEY sets a key of your own.
ENTRYPOINT ["studio"]
CMD ["app", "--host", "0.0.0.0", "--data", "/data"]

FROM base AS cuda
# Triton compiles the code that starts its kernels.
USER 0
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
USER 1000
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM base AS cpu
