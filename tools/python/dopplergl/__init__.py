"""Run language models on OpenGL ES: DopplerGL for Python, over the shared library.

    import dopplergl

    with dopplergl.Device("any") as device, device.load("model.gguf") as model:
        with model.session() as session:
            for text in session.stream("Once upon a time", max_tokens=64, temperature=0.8):
                print(text, end="", flush=True)
        for answer in model.generate_all(["One", "Two", "Three"], max_tokens=16):
            print(answer.text)

A device and everything made from it belong to one thread at a time, except `Session.cancel()`, `Batch.submit()`,
`Batch.cancel()` and `Batch.wake()`. Objects are closed by `with`, by `close()`, or with the object that made them. Failed calls
raise `Error` with the line that explains them. `dopplergl.c` has every function and struct of dopplergl.h.
"""
from __future__ import annotations

import ctypes as _ct
import dataclasses
import json
import queue
import threading
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from . import _c as c
from ._c import Error

__all__ = ["Batch", "Device", "DeviceInfo", "Error", "Model", "Request", "Result", "Session", "Template", "api_version", "c",
           "devices", "version"]

_lib = c.lib
_TEXT = _ct.CFUNCTYPE(_ct.c_bool, _ct.c_void_p, _ct.c_void_p, _ct.c_size_t)
_FINISH = _ct.CFUNCTYPE(None, _ct.c_void_p, _ct.c_void_p)
_ROW = _ct.CFUNCTYPE(_ct.c_bool, _ct.c_void_p, _ct.c_void_p)


def _params(kind: str, /, **fields: Any) -> Any:
    return _ct.byref(c.params(kind, **fields))


def version() -> str:
    """The library's version, "major.minor.patch"."""
    return _lib.dgl_version().decode()


def api_version() -> int:
    """The version of the interface of the loaded library."""
    return _lib.dgl_api_version()


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """A row of the device table. `reason` says why a device is not usable or would not be picked."""

    index: int
    node: str
    renderer: str
    driver: str
    software: bool
    usable: bool
    reason: str


def _info(row: Any) -> DeviceInfo:
    return DeviceInfo(row.index, row.node.decode(), row.renderer.decode(), row.driver.decode(), row.software, row.usable,
                      row.reason.decode())


def devices() -> list[DeviceInfo]:
    """All devices, best first. Opens each of them."""
    rows: list[DeviceInfo] = []

    @_ROW
    def add(_priv, row):
        rows.append(_info(_ct.cast(row, _ct.POINTER(c.struct["dgl_device_info"])).contents))
        return True

    _lib.dgl_device_iterate(c.log(), _ct.cast(add, _ct.c_void_p), None)
    return rows


@dataclasses.dataclass(frozen=True)
class Result:
    """An answer. `finish` is eos, stop, length, context or cancelled; times are in seconds."""

    text: str
    tokens: list[int]
    finish: str
    num_prompt_tokens: int
    num_reused: int
    first_token_s: float
    decode_s: float


def _ids(values: Sequence[int]) -> Any:
    return (_ct.c_int32 * len(values))(*values)


def _texts(values: Sequence[str]) -> Any:
    return (_ct.c_char_p * len(values))(*[v.encode() for v in values]) if values else None


_SAMPLING = [name for name, _type in c.struct["dgl_sampling"]._fields_
             if name not in ("reserved", "dry_breakers", "num_dry_breakers", "logit_bias", "num_logit_bias")]


def _request(kind: str, prompt: str | Sequence[int], max_tokens: int, stop: Sequence[str], ignore_eos: bool,
             sampling: Mapping[str, float], bias: Mapping[int, float] | None, **callbacks: Any) -> Any:
    """A struct dgl_generate_params or dgl_request_params."""
    unknown = sorted(set(sampling) - set(_SAMPLING))
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]}: sampling arguments are {', '.join(_SAMPLING)}")
    how = c.struct["dgl_sampling"](**sampling)
    if bias:
        biases = (c.struct["dgl_logit_bias"] * len(bias))(*[(i, b) for i, b in bias.items()])
        how.logit_bias, how.num_logit_bias, how.kept = _ct.addressof(biases), len(bias), biases
    text = prompt.encode() if isinstance(prompt, str) else None
    if text == b"":
        raise ValueError("the prompt is empty: give a text, or ids")
    ids = None if text is not None else _ids(list(prompt))  # type: ignore[arg-type]
    made = c.params(kind, prompt=text, prompt_len=len(text) if text else 0, ids=ids, num_ids=len(ids) if ids else 0,
                    max_tokens=max_tokens, sampling=how, stop=_texts(stop), num_stop=len(stop), ignore_eos=ignore_eos,
                    **callbacks)
    return made


class _Handle:
    """A handle of the library. Closing it closes the objects made from it first, in reverse order."""

    _destroy: Callable[[Any], None]

    def __init__(self, maker: _Handle | None):
        self._handle = _ct.c_void_p()
        self._maker, self._made = maker, []  # type: ignore[var-annotated]
        if maker:
            maker._made.append(self)

    def close(self) -> None:
        """Frees the object and everything made from it. Does nothing the second time."""
        while self._made:
            self._made[-1].close()
        if self._handle:
            type(self)._destroy(_ct.byref(self._handle))
        if self._maker and self in self._maker._made:
            self._maker._made.remove(self)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Device(_Handle):
    """An open GPU. `select` is None (the first GPU), "any", "software", a node's path or a row number."""

    _destroy = _lib.dgl_device_destroy

    def __init__(self, select: str | None = None, *, limits: str | None = None, cache_dir: str | None = None):
        super().__init__(None)
        # A device borrows its log. Later errors are read by dgl_device_error().
        self._error = c.struct["dgl_error"]()
        self._log = c.struct["dgl_log"](error=_ct.addressof(self._error))
        params = c.params("device", select=select, limits=limits, cache_dir=cache_dir)
        try:
            _lib.dgl_device_create(_ct.byref(self._log), _ct.byref(params), _ct.byref(self._handle))
        except Error as error:
            raise Error(error.status, self._error.text.decode(errors="replace")) from None

    @property
    def info(self) -> DeviceInfo:
        """The device's row of the device table."""
        pointer = _lib.dgl_device_get_info(self._handle)
        return _info(_ct.cast(pointer, _ct.POINTER(c.struct["dgl_device_info"])).contents)

    def load(self, path: str, *, context: int = 0) -> Model:
        """Loads a model: a pack, a Hugging Face folder, a GGUF file, or org/name of the Hub cache."""
        return Model(self, path, context=context)

    def _call(self, function: Any, *arguments: Any) -> None:
        """Calls a function that logs to the device's log, from any thread."""
        try:
            function(*arguments)
        except Error as error:
            if error.status == c.value["DGL_ERR_CANCELLED"]:
                raise
            raise Error(error.status, self.last_error()) from None

    def last_error(self) -> str:
        """The last error line of the device and its objects. Any thread may call it."""
        why = c.struct["dgl_error"]()
        _lib.dgl_device_error(self._handle, _ct.byref(why))
        return why.text.decode(errors="replace")


class Model(_Handle):
    """A model in the memory of a device."""

    _destroy = _lib.dgl_model_destroy

    def __init__(self, device: Device, path: str, *, context: int = 0):
        super().__init__(device)
        self.device, self.path = device, path
        device._call(_lib.dgl_model_load, device._handle, _params("model", path=path, context=context),
                     _ct.byref(self._handle))
        info = _ct.cast(_lib.dgl_model_get_info(self._handle), _ct.POINTER(c.struct["dgl_model_info"])).contents
        self.family: str = info.family.decode()
        self.quantization: str = info.quantization.decode()
        self.vocab, self.hidden, self.layers = int(info.vocab), int(info.hidden), int(info.layers)
        self.context, self.weight_bytes = int(info.context), int(info.weight_bytes)

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """The ids of a text, with the special tokens that the tokenizer adds unless `add_special` is False."""
        ids, count, data = _ct.POINTER(_ct.c_int32)(), _ct.c_size_t(), text.encode()
        _lib.dgl_encode(c.log(), self._tokenizer(), data, len(data), _params("encode", add_special=add_special),
                        _ct.byref(ids), _ct.byref(count))
        try:
            return ids[:count.value]
        finally:
            _lib.dgl_free(ids)

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of ids. Invalid UTF-8 becomes U+FFFD."""
        text, size = _ct.c_void_p(), _ct.c_size_t()
        _lib.dgl_decode(c.log(), self._tokenizer(), _ids(ids), len(ids), skip_special, _ct.byref(text), _ct.byref(size))
        try:
            return _ct.string_at(text, size.value).decode(errors="replace")
        finally:
            _lib.dgl_free(text)

    def _tokenizer(self) -> Any:
        tokenizer = _lib.dgl_model_tokenizer(self._handle)
        if not tokenizer:
            raise Error(c.value["DGL_ERR_INVALID_ARG"], f"{self.path} has no tokenizer: use ids")
        return tokenizer

    def template(self, name: str | None = None) -> Template:
        """The model's chat template."""
        return Template(self, name)

    def session(self, *, context: int = 0) -> Session:
        """A sequence of tokens with its KV cache."""
        return Session(self, context=context)

    def batch(self, *, sequences: int = 0, context: int = 0, queue: int = 0, invariant: bool = False) -> Batch:
        """Many requests at once."""
        return Batch(self, sequences=sequences, context=context, queue=queue, invariant=invariant)

    def generate_all(self, prompts: Iterable[str | Sequence[int]], *, sequences: int = 0, **how: Any) -> list[Result]:
        """The answers to all prompts, in their order. `how` is as in Batch.submit()."""
        prompts = list(prompts)
        with self.batch(sequences=sequences, queue=max(len(prompts), 1)) as batch:
            requests = [batch.submit(prompt, **how) for prompt in prompts]
            batch.run()
            return [request.result() for request in requests]


class Template(_Handle):
    """A chat template."""

    _destroy = _lib.dgl_template_destroy

    def __init__(self, model: Model, name: str | None = None):
        super().__init__(model)
        self._model = model
        _lib.dgl_template_load(c.log(), _params("template", path=model.path, name=name), _ct.byref(self._handle))

    def ids(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> list[int]:
        """The prompt of a conversation, as ids. Text of messages never becomes a special token."""
        ids, count = _ct.POINTER(_ct.c_int32)(), _ct.c_size_t()
        document = json.dumps({"messages": list(messages), **variables})
        _lib.dgl_render_ids(c.log(), self._handle, self._model._tokenizer(),
                            _params("render", messages=document, add_generation_prompt=True), _ct.byref(ids),
                            _ct.byref(count))
        try:
            return ids[:count.value]
        finally:
            _lib.dgl_free(ids)


class Session(_Handle):
    """One sequence of tokens. It keeps its evaluated tokens, so a longer prompt evaluates only its new part."""

    _destroy = _lib.dgl_session_destroy

    def __init__(self, model: Model, *, context: int = 0):
        super().__init__(model)
        self.model = model
        model.device._call(_lib.dgl_session_create, model._handle, _params("session", context=context),
                           _ct.byref(self._handle))

    def __len__(self) -> int:
        return _lib.dgl_session_len(self._handle)

    def trim(self, length: int) -> None:
        """Keeps the first tokens."""
        _lib.dgl_session_trim(self._handle, length)

    def cancel(self) -> None:
        """Ends the call in progress. Any thread may call it."""
        _lib.dgl_session_cancel(self._handle)

    def generate(self, prompt: str | Sequence[int], *, max_tokens: int = 0, stop: Sequence[str] = (),
                 ignore_eos: bool = False, logit_bias: Mapping[int, float] | None = None,
                 on_text: Callable[[str], bool | None] | None = None, **sampling: float) -> Result:
        """Answers a prompt. `on_text` gets the text while it is generated; it ends the answer by returning False.
        `sampling` has the fields of dgl_sampling: temperature, top_k, top_p, min_p, seed, repeat_penalty, ..."""
        failure: list[BaseException] = []

        @_TEXT
        def text_cb(_priv, text, size):
            try:
                return on_text is None or on_text(_ct.string_at(text, size).decode()) is not False
            except BaseException as error:  # pylint: disable=broad-except
                failure.append(error)  # no exception may pass through C
                return False

        result = c.struct["dgl_generate_result"]()
        params = _request("generate", prompt, max_tokens, stop, ignore_eos, sampling, logit_bias, text_cb=text_cb)
        try:
            self.model.device._call(_lib.dgl_generate, self._handle, _ct.byref(params), _ct.byref(result))
            if failure:
                raise failure[0]
            return Result(_ct.string_at(result.text, result.text_len).decode(),
                          _ct.cast(result.tokens, _ct.POINTER(_ct.c_int32))[:result.num_tokens],
                          _lib.dgl_finish_str(result.finish).decode(), result.num_prompt_ids, result.num_reused,
                          result.first_token_ns * 1e-9, result.decode_ns * 1e-9)
        finally:
            _lib.dgl_generate_result_finish(_ct.byref(result))

    def stream(self, prompt: str | Sequence[int], **how: Any) -> Iterator[str]:
        """Yields the text of an answer while it is generated. `how` is as in generate(). The generator's value is the
        Result. Closing the generator ends the answer."""
        pieces: queue.Queue[Any] = queue.Queue()
        closed = threading.Event()

        def on_text(text: str) -> bool:
            pieces.put(text)
            return not closed.is_set()

        def work() -> None:
            try:
                pieces.put(self.generate(prompt, on_text=on_text, **how))
            except BaseException as error:  # pylint: disable=broad-except
                pieces.put(error)

        thread = threading.Thread(target=work, name="dopplergl stream")
        thread.start()
        try:
            while True:
                piece = pieces.get()
                if isinstance(piece, str):
                    yield piece
                elif isinstance(piece, Result):
                    return piece  # type: ignore[return-value]
                else:
                    raise piece
        finally:
            closed.set()
            while thread.is_alive():
                self.cancel()  # has no effect before the call began
                thread.join(0.01)

    def embed(self, prompt: str | Sequence[int], *, normalize: bool = True, pooling: str = "mean") -> list[float]:
        """The embedding of a prompt. `pooling` is mean or last."""
        rows, count = _ct.POINTER(_ct.c_float)(), _ct.c_size_t()
        text = prompt.encode() if isinstance(prompt, str) else None
        ids = None if text is not None else _ids(list(prompt))  # type: ignore[arg-type]
        params = c.params("embed", prompt=text, prompt_len=len(text) if text else 0, ids=ids,
                          num_ids=len(ids) if ids else 0, normalize=normalize,
                          pooling=c.value["DGL_POOLING_" + {"mean": "MEAN", "last": "LAST"}[pooling]])
        self.model.device._call(_lib.dgl_embed, self._handle, _ct.byref(params), _ct.byref(rows), _ct.byref(count))
        try:
            return rows[:self.model.hidden]
        finally:
            _lib.dgl_free(rows)

    def logits(self, ids: Sequence[int]) -> list[float]:
        """Appends ids, and returns the logits of the next token. Without ids, those of the last token."""
        logits = (_ct.c_float * self.model.vocab)()
        params = c.params("eval", ids=_ids(ids) if ids else None, num_ids=len(ids))
        self.model.device._call(_lib.dgl_session_eval, self._handle, _ct.byref(params), logits, None)
        return list(logits)


class Request:
    """A request of a batch."""

    def __init__(self) -> None:
        self.id = 0
        self._result: Result | BaseException | None = None
        self._kept: Any = None

    def done(self) -> bool:
        """True after the last callback."""
        return self._result is not None

    def result(self) -> Result:
        """The answer, or raises its Error. The request must be done."""
        if self._result is None:
            raise RuntimeError("the request has not ended: call Batch.run() or Batch.step()")
        if isinstance(self._result, Result):
            return self._result
        raise self._result


class Batch(_Handle):
    """Many requests on one model. One thread calls run() or step(); any thread may submit."""

    _destroy = _lib.dgl_batch_destroy

    def __init__(self, model: Model, *, sequences: int = 0, context: int = 0, queue: int = 0, invariant: bool = False):
        super().__init__(model)
        self.model = model
        self._requests: dict[int, Request] = {}
        self._ended: list[int] = []
        model.device._call(_lib.dgl_batch_create, model._handle,
                           _params("batch", sequences=sequences, context=context, queue=queue, invariant=invariant),
                           _ct.byref(self._handle))

    def submit(self, prompt: str | Sequence[int], *, max_tokens: int = 0, stop: Sequence[str] = (), ignore_eos: bool = False,
               logit_bias: Mapping[int, float] | None = None, on_text: Callable[[str], bool | None] | None = None,
               on_finish: Callable[[Request], None] | None = None, **sampling: float) -> Request:
        """Queues a request. The callbacks run on the thread that steps. Any thread may call it."""
        request = Request()

        @_TEXT
        def text_cb(_priv, text, size):
            try:
                return on_text is None or on_text(_ct.string_at(text, size).decode()) is not False
            except BaseException as error:  # pylint: disable=broad-except
                request._result = error  # no exception may pass through C
                return False

        @_FINISH
        def finish_cb(_priv, pointer):
            r = _ct.cast(pointer, _ct.POINTER(c.struct["dgl_request_result"])).contents
            if request._result is None and r.status != 0:
                request._result = Error(r.status, self.model.device.last_error())
            elif request._result is None:
                request._result = Result(_ct.string_at(r.text, r.text_len).decode(),
                                         _ct.cast(r.tokens, _ct.POINTER(_ct.c_int32))[:r.num_tokens] if r.num_tokens else [],
                                         _lib.dgl_finish_str(r.finish).decode(), r.num_prompt_ids, r.num_reused,
                                         r.first_token_ns * 1e-9, r.decode_ns * 1e-9)
            try:
                if on_finish is not None:
                    on_finish(request)
            except BaseException as error:  # pylint: disable=broad-except
                request._result = error
            self._ended.append(id(request))

        params = _request("request", prompt, max_tokens, stop, ignore_eos, sampling, logit_bias, text_cb=text_cb,
                          finish_cb=finish_cb)
        # The callbacks must exist until the request has ended.
        request._kept = (text_cb, finish_cb)
        self._requests[id(request)] = request
        number = _ct.c_uint64()
        try:
            self.model.device._call(_lib.dgl_batch_submit, self._handle, _ct.byref(params), _ct.byref(number))
        except Error:
            del self._requests[id(request)]
            raise
        request.id = number.value
        return request

    def cancel(self, request: Request) -> None:
        """Ends a request. Any thread may call it."""
        _lib.dgl_batch_cancel(self._handle, request.id)

    def step(self) -> int:
        """Advances every request. Returns the number of unfinished requests."""
        left = _ct.c_size_t()
        self._ended.clear()
        self.model.device._call(_lib.dgl_batch_step, self._handle, _ct.byref(left))
        for key in self._ended:
            self._requests.pop(key, None)
        return left.value

    def run(self) -> None:
        """Steps until all requests have ended."""
        while self.step():
            pass

    def wait(self, seconds: float = 0) -> int:
        """Sleeps until there is a request, at most `seconds` (0: no limit). Returns the number of unfinished requests."""
        left = _ct.c_size_t()
        self.model.device._call(_lib.dgl_batch_wait, self._handle, int(seconds * 1e9), _ct.byref(left))
        return left.value

    def wake(self) -> None:
        """Ends a wait(). Any thread may call it."""
        _lib.dgl_batch_wake(self._handle)
