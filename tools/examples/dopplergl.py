"""DopplerGL for Python by ctypes: all of dopplergl.h, read from that file, so that structs and functions are those of the
installed library, whatever its version.

    import dopplergl as dgl
    dgl.lib.dgl_session_eval(session, dgl.params("eval", ids=ids, num_ids=3), logits, None)

`dgl.lib` has the functions, `dgl.struct["dgl_limits"]` the structs, `dgl.value["DGL_LOG_WARN"]` enums and macros,
`dgl.params(NAME, ...)` makes a `struct dgl_NAME_params` as the macros of C do. Functions that return a status raise `dgl.Error`
when it is not DGL_OK, with the error line. Handles are c_void_p. ctypes lets other Python threads run during a call.

The header is looked for below DOPPLERGL_PREFIX, else below the prefix that this file is installed under, else in /usr/local
and /usr; the library in lib of that prefix, or a folder of it, else where the loader looks.
"""
import ctypes as c
import glob
import os
import re

_here = os.path.dirname(os.path.realpath(__file__))
_prefixes = [os.environ["DOPPLERGL_PREFIX"]] if "DOPPLERGL_PREFIX" in os.environ else [
    os.path.normpath(os.path.join(_here, "../../../..")), "/usr/local", "/usr"]
prefix = next((p for p in _prefixes if os.path.exists(p + "/include/dopplergl.h")), None)
if prefix is None:
    raise ImportError("dopplergl.h is in include of none of: " + ", ".join(_prefixes) + "; set DOPPLERGL_PREFIX")
with open(prefix + "/include/dopplergl.h", encoding="utf-8") as _file:
    _text = re.sub(r"/\*.*?\*/", "", _file.read(), flags=re.S)

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
for _name, _body in re.findall(r"^struct (dgl_\w+) \{(.*?)^\};", _text, flags=re.S | re.M):
    _fields = [f for d in _body.split(";") if d.strip() for f in _declared(d.strip())]
    struct[_name] = type(_name, (c.Structure,), {"_fields_": _fields})

_so = f"libdopplergl.so.{value['DGL_API_VERSION']}"
lib = c.CDLL(next(iter(glob.glob(f"{prefix}/lib/{_so}") + glob.glob(f"{prefix}/lib/*/{_so}")), _so))


class Error(Exception):
    """A status that is not DGL_OK: `status`, and the error line."""

    def __init__(self, status, line):
        super().__init__(line or lib.dgl_status_str(status).decode())
        self.status = status


_error = struct["dgl_error"]()
log = struct["dgl_log"](error=c.addressof(_error))


def _check(status, _function, _arguments):
    if status != 0:
        line, _error.text = _error.text.decode(errors="replace"), b""
        raise Error(status, line)
    return status


for _returns, _name, _list in re.findall(r"^([a-z][\w ]*?[\s*]+)(dgl_\w+)\(([^;{]*)\);", _text, flags=re.M):
    _function = getattr(lib, _name)
    _list = [] if _list.strip() == "void" else re.split(r",(?![^(]*\))", _list)
    _function.argtypes = [next(_declared(a.strip()))[1] for a in _list]
    _function.restype = _type(re.sub(r"\s*\*", " *", _returns))
    if _returns.strip() == "enum dgl_status":
        _function.errcheck = _check


def params(name, **fields):
    """A pointer to a struct dgl_NAME_params. Texts may be str; what a field points to must outlive the call."""
    made = struct[f"dgl_{name}_params"]()
    for key, item in fields.items():
        setattr(made, key, item.encode() if isinstance(item, str) else
                c.cast(item, c.c_void_p) if isinstance(item, (c.Array, c._CFuncPtr)) else item)
    return c.byref(made)
