"""All of dopplergl.h by ctypes, read from that file, so that structs and functions are those of the loaded library.

`lib` has the functions, `struct["dgl_limits"]` the structs, `value["DGL_LOG_WARN"]` enums and macros, `params(KIND, ...)` makes
a `struct dgl_KIND_params` as the macros of C do. Functions that return a status raise `Error` when it is not DGL_OK. Handles
are c_void_p. ctypes lets other Python threads run during a call.

The header and the library are files of this package if it was installed by pip. Otherwise they are searched below
DOPPLERGL_PREFIX, below the prefix that this file is installed under, in /usr/local and in /usr. In the source tree they are
core/dopplergl.h and build. DOPPLERGL_LIBRARY names another library file.
"""
from __future__ import annotations

import ctypes as c
import glob
import os
import re
import threading
from typing import Any

_here = os.path.dirname(os.path.realpath(__file__))
_tree = os.path.normpath(os.path.join(_here, "../../.."))
# (header, patterns of the library's file)
_places = [(_here + "/dopplergl.h", [_here]), (_tree + "/core/dopplergl.h", [_tree + "/build"])]
_prefixes = [os.environ["DOPPLERGL_PREFIX"]] if "DOPPLERGL_PREFIX" in os.environ else [
    os.path.normpath(os.path.join(_here, "../../../../..")), "/usr/local", "/usr"]
_installed = [(p + "/include/dopplergl.h", [p + "/lib", p + "/lib/*"]) for p in _prefixes]
_places = _installed + _places if "DOPPLERGL_PREFIX" in os.environ else _places + _installed
_place = next((p for p in _places if os.path.exists(p[0])), None)
if _place is None:
    raise ImportError("dopplergl.h is in none of: " + ", ".join(p[0] for p in _places) + "; set DOPPLERGL_PREFIX")
with open(_place[0], encoding="utf-8") as _file:
    _text = re.sub(r"/\*.*?\*/", "", _file.read(), flags=re.S)
_sized = set(re.findall(r"size_t size DGL_SIZED\((\w+)\);", _text))
_text = re.sub(r" DGL_SIZED\(\w+\)", "", _text)

_scalars = {"bool": c.c_bool, "int": c.c_int, "int32_t": c.c_int32, "uint32_t": c.c_uint32,
            "int64_t": c.c_int64, "uint64_t": c.c_uint64,
            "size_t": c.c_size_t, "float": c.c_float, "double": c.c_double, "char": c.c_char, "void": None}
struct, value, callback = {}, {}, {}


def _type(words):
    """The ctypes type of a C type; pointers to anything but text, and functions, are c_void_p."""
    words = re.sub(r"\bconst\b", "", words).strip()
    if words.endswith("*") or words in callback:
        return c.c_char_p if re.fullmatch(r"char\s*\*", words) else c.c_void_p
    if words.startswith("enum "):
        return c.c_int
    return struct[words[7:]] if words.startswith("struct ") else _scalars[words]


def _declared(text):
    """(name, type) of each declarator of "int32_t a, *b, c[3]"."""
    function = re.fullmatch(r".*?\(\*(\w+)\)\(.*\)", text, flags=re.S)
    if function:
        yield function[1], c.c_void_p
        return
    base, rest = re.fullmatch(r"((?:const\s+)?(?:(?:struct|enum)\s+)?\w+(?:\s+const)?)\s*(.*)", text, flags=re.S).groups()
    for part in rest.split(","):
        stars, name, count = re.fullmatch(r"\s*((?:\*|\bconst\b|\s)*)(\w*)\s*(?:\[(\w*)\])?\s*", part).groups()
        # More than one star is a pointer to pointers, and so is no text.
        kind = c.c_void_p if stars.count("*") > 1 else _type(base + "*" * stars.count("*"))
        yield name, kind * int(value.get(count, count)) if count else kind


for _name, _number in re.findall(r"#define (DGL_\w+)\s+\(?(-?\d+)\)?\s*$", _text, flags=re.M):
    value[_name] = int(_number)
for _body in re.findall(r"enum \w+ \{(.*?)\}", _text, flags=re.S):
    _next = 0
    for _name, _number in re.findall(r"(DGL_\w+)\s*(?:=\s*(-?\d+))?", _body):
        value[_name] = _next = int(_number or _next)
        _next += 1
for _name in re.findall(r"typedef \w+ \(\*(\w+)\)", _text):
    callback[_name] = c.c_void_p


def _struct(name, fields):
    """A struct of the header. A new one has its size, as in C++."""
    def init(self, **values):
        c.Structure.__init__(self, **values)
        if name in _sized:
            self.size = c.sizeof(self)
    return type(name, (c.Structure,), {"_fields_": fields, "__init__": init})


for _name, _body in re.findall(r"^struct (dgl_\w+) \{(.*?)^\};", _text, flags=re.S | re.M):
    struct[_name] = _struct(_name, [f for d in _body.split(";") if d.strip() for f in _declared(d.strip())])

_so = f"libdopplergl.so.{value['DGL_API_VERSION']}"
lib: Any = c.CDLL(os.environ.get("DOPPLERGL_LIBRARY") or next(
    (f for folder in _place[1] for f in sorted(glob.glob(f"{folder}/{_so}"))), _so))


class Error(Exception):
    """A status that is not DGL_OK: `status`, and the error line."""

    def __init__(self, status, line):
        super().__init__(line or lib.dgl_status_str(status).decode())
        self.status = status


class _Thread(threading.local):
    """The log of the calls of a thread, and its first error line."""

    def __init__(self):
        self.error = struct["dgl_error"]()
        self.log = struct["dgl_log"](error=c.addressof(self.error))


_thread = _Thread()


def log():
    """The log of this thread, for functions that have one as their first parameter."""
    return c.byref(_thread.log)


def _check(status, _function, _arguments):
    if status != 0:
        line, _thread.error.text = _thread.error.text.decode(errors="replace"), b""
        raise Error(status, line)
    return status


for _returns, _name, _list in re.findall(r"^([a-z][\w ]*?[\s*]+)(dgl_\w+)\(([^;{]*)\);", _text, flags=re.M):
    _function = getattr(lib, _name)
    _list = [] if _list.strip() == "void" else re.split(r",(?![^(]*\))", _list)
    _function.argtypes = [next(_declared(a.strip()))[1] for a in _list]
    _function.restype = _type(re.sub(r"\s*\*", " *", _returns))
    if _returns.strip() == "enum dgl_status":
        _function.errcheck = _check


def params(kind, /, **fields):
    """A struct dgl_KIND_params. Texts may be str; ctypes keeps what the fields point to. None stays the default."""
    made = struct[f"dgl_{kind}_params"]()
    made.kept = list(fields.values())
    for key, item in fields.items():
        if item is not None:
            setattr(made, key, item.encode() if isinstance(item, str) else
                    c.cast(item, c.c_void_p) if isinstance(item, (c.Array, c._CFuncPtr)) else item)
    return made
