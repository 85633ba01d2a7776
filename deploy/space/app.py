"""The studio as a Hugging Face Space; docs/deploy.md of the studio says how its folder is made."""

import os
import sys
from pathlib import Path

ZERO_GPU = os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")
PERSISTENT = Path("/data")
# Where the Space is shown, and the addresses of the proxies in front of it.
SETTINGS = {
    "ALLOWED_HOSTS": os.environ.get("SPACE_HOST", "*.hf.space"),
    "ALLOWED_ORIGINS": "https://huggingface.co",
    "PROXIES": "10.0.0.0/8",
}


def start_on_zero_gpu() -> None:
    """Report the start to ZeroGPU, which ends a Space without a function for its GPU.

    A GPU is lent for the time of one call. An utterance keeps its KV cache from one word to the next, for as long as
    somebody types, so the engine stays on the CPU; ``spaces`` would make torch believe that there is a GPU.
    """
    import spaces  # before torch
    from spaces.zero import startup

    @spaces.GPU
    def name_of_gpu() -> str:
        import torch

        return torch.cuda.get_device_name()

    startup()


def main() -> None:
    """Serve the studio at GRADIO_SERVER_PORT, which a Space sets to 7860."""
    if ZERO_GPU:
        start_on_zero_gpu()
    for name, value in SETTINGS.items():
        os.environ.setdefault(f"STUDIO_SERVE_{name}", value)
    data = PERSISTENT if os.access(PERSISTENT, os.W_OK) else Path("data").resolve()
    os.environ.setdefault("STUDIO_SERVE_TRACES_FOLDER", str(data / "traces"))
    port = os.environ.get("GRADIO_SERVER_PORT", "7860")
    sys.argv = ["studio", "app", "--host", "0.0.0.0", "--port", port, "--open", "--data", str(data)]
    sys.argv += ["--device", "cpu"] * ZERO_GPU

    from studio.cli import main as studio

    studio()


if __name__ == "__main__":
    main()
