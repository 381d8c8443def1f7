"""Builds the Python package for pip (PEP 517), with nothing but Python and make.

The wheel has the package, the header and the shared library. `make` builds the library if it is missing or old;
DOPPLERGL_LIBRARY names one that is already built.
"""
import base64
import hashlib
import os
import re
import subprocess
import sysconfig
import tarfile
import zipfile

_root = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
_package = os.path.join(_root, "tools/python/dopplergl")


def _read(name):
    with open(os.path.join(_root, name), encoding="utf-8") as file:
        return file.read()


def _version():
    return re.search(r"^VERSION\s*:?=\s*(\S+)", _read("Makefile"), flags=re.M)[1]


def _metadata():
    return (f"Metadata-Version: 2.1\nName: dopplergl\nVersion: {_version()}\n"
            "Summary: Run language models on OpenGL ES 3.1 compute\nLicense: MIT\nRequires-Python: >=3.8\n")


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    api = re.search(r"#define DGL_API_VERSION (\d+)", _read("core/dopplergl.h"))[1]
    shared = f"libdopplergl.so.{api}"
    library = os.environ.get("DOPPLERGL_LIBRARY")
    if not library:
        library = os.path.join(_root, "build", shared)
        subprocess.run(["make", "-C", _root, f"-j{os.cpu_count() or 1}", f"build/{shared}"], check=True)
    version = _version()
    tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    name = f"dopplergl-{version}-{tag}.whl"
    files = {f"dopplergl/{f}": os.path.join(_package, f) for f in sorted(os.listdir(_package))
             if f.endswith((".py", ".typed"))}
    files["dopplergl/dopplergl.h"] = os.path.join(_root, "core/dopplergl.h")
    files[f"dopplergl/{shared}"] = library
    info = f"dopplergl-{version}.dist-info"
    texts = {f"{info}/METADATA": _metadata(),
             f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: dopplergl\nRoot-Is-Purelib: false\nTag: {tag}\n"}
    record = []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        def add(path, data):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")
            wheel.writestr(path, data)
        for path, source in files.items():
            with open(source, "rb") as file:
                add(path, file.read())
        for path, text in texts.items():
            add(path, text.encode())
        wheel.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"dopplergl-{_version()}"
    tracked = subprocess.run(["git", "-C", _root, "ls-files"], check=True, capture_output=True, text=True).stdout
    with tarfile.open(os.path.join(sdist_directory, f"{name}.tar.gz"), "w:gz") as out:
        for path in tracked.splitlines():
            out.add(os.path.join(_root, path), f"{name}/{path}", recursive=False)
    return f"{name}.tar.gz"
