# CPU image: docker build -t streaming-tts-studio . && docker run --rm -p 7860:7860 -v studio-data:/data streaming-tts-studio
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends libportaudio2 libgomp1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /app
COPY pyproject.toml constraints.txt setup.py MANIFEST.in README.md LICENSE ./
COPY studio studio
COPY assets assets
# PyTorch's index of CPU wheels saves 4 GB: --build-arg TORCH_INDEX=<its address>.
ARG TORCH_INDEX=
# Extras of pyproject.toml; `scale` for replicas (docs/scaling.md).
ARG EXTRAS=app
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url $TORCH_INDEX} "torch==2.11.*" "torchaudio==2.11.*" \
    && pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]"

RUN useradd --create-home studio && mkdir /data && chown studio /data
USER studio
ENV NUMBA_CACHE_DIR=/home/studio/.cache/numba
# Kernels are compiled once, in the image, so that the first utterance starts without delay.
RUN for voice in wren linnet siskin; do studio say "Ready." --voice $voice -o /tmp/ready.wav; done && rm /tmp/ready.wav

EXPOSE 7860
VOLUME /data
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/health', timeout=5)"]
# The start prints a link with a key, which every page wants; STUDIO_SERVE_KEY sets a key of your own.
ENTRYPOINT ["studio"]
CMD ["app", "--host", "0.0.0.0", "--data", "/data"]
