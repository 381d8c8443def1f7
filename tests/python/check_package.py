"""Tests of the Python package: python3 check_package.py MODEL. Prints "ok N" for each case; the first failure ends it."""
import sys
import threading

import dopplergl

model_path = sys.argv[1]
PROMPT = "Once upon a time"


def equal(what, got, want):
    if got != want:
        sys.exit(f"{what}: got {got!r}, want {want!r}")


def raises(what, kind, word, function, *arguments, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        if word not in str(error):
            sys.exit(f"{what}: got {error}, want {word}")
        return
    sys.exit(f"{what}: no {kind.__name__}")


def versions():
    equal("api_version", dopplergl.api_version(), dopplergl.c.value["DGL_API_VERSION"])
    equal("version", dopplergl.version().count("."), 2)
    equal("device rows", any(row.software for row in dopplergl.devices()), True)


def sizes():
    for name in ("dgl_model_params", "dgl_generate_result"):
        made = dopplergl.c.struct[name]()
        equal(name, made.size, dopplergl.c.c.sizeof(made))


def errors():
    raises("a missing device", dopplergl.Error, "nonsense", dopplergl.Device, "nonsense")
    raises("a missing model", dopplergl.Error, "/nowhere", device.load, "/nowhere")
    raises("a missing model again", dopplergl.Error, "/elsewhere", device.load, "/elsewhere")
    raises("an unknown argument", TypeError, "temprature", session.generate, PROMPT, temprature=1)
    raises("a value out of range", dopplergl.Error, "top_p", session.generate, PROMPT, top_p=1.5)
    raises("an empty prompt", ValueError, "empty", session.generate, "")


def tokens():
    ids = model.encode(PROMPT)
    equal("decoded", model.decode(ids).strip(), PROMPT)
    equal("embedding", len(session.embed(PROMPT)), model.hidden)
    session.trim(0)
    equal("logits", len(session.logits(ids)), model.vocab)
    equal("length", len(session), len(ids))


def streaming():
    whole = session.generate(PROMPT, max_tokens=12, ignore_eos=True)
    stream, pieces = session.stream(PROMPT, max_tokens=12, ignore_eos=True), []
    try:
        while True:
            pieces.append(next(stream))
    except StopIteration as end:
        equal("result", end.value.tokens, whole.tokens)
    equal("streamed", "".join(pieces), whole.text)
    equal("more than one piece", len(pieces) > 1, True)


def an_early_end():
    stream = session.stream(PROMPT, ignore_eos=True)
    next(stream)
    stream.close()
    equal("usable", session.generate(PROMPT, max_tokens=2, ignore_eos=True).finish, "length")
    raises("an exception of a callback", ZeroDivisionError, "zero", session.generate, PROMPT, max_tokens=4,
           on_text=lambda text: 1 / 0)
    equal("False ends", session.generate(PROMPT, max_tokens=9, on_text=lambda text: False).finish, "cancelled")


def batches():
    prompts = [PROMPT, "The dog", "A cat"]
    alone = [session.generate(p, max_tokens=8, ignore_eos=True).text for p in prompts]
    answers = model.generate_all(prompts, max_tokens=8, ignore_eos=True)
    equal("answers", [a.text for a in answers], alone)


def other_threads():
    with model.batch(sequences=2) as batch:
        requests, heard = [], []

        def submit():
            for _ in range(3):
                requests.append(batch.submit(PROMPT, max_tokens=4, ignore_eos=True, on_text=heard.append))

        threads = [threading.Thread(target=submit) for _ in range(2)]
        for thread in threads:
            thread.start()
        ended = 0
        while ended < 6:
            batch.wait(5)
            batch.step()
            ended = sum(r.done() for r in list(requests))
        for thread in threads:
            thread.join()
        equal("finishes", [r.result().finish for r in requests], ["length"] * 6)
        equal("heard", "".join(heard).count(requests[0].result().text.split()[0]) >= 6, True)
        raises("an error of a request", dopplergl.Error, "temperature", batch.submit, PROMPT,
               temperature=-1)


def templates():
    ids = model.template().ids([{"role": "user", "content": "Tell me about a dog."}])
    equal("words of the message", "dog" in model.decode(ids), True)


with dopplergl.Device("any", cache_dir="") as device, device.load(model_path, context=256) as model:
    session = model.session()
    for number, case in enumerate([versions, sizes, errors, tokens, streaming, an_early_end, batches, other_threads,
                                   templates], 1):
        case()
        print(f"ok {number} - {case.__name__}", flush=True)
raises("a closed session", dopplergl.Error, "invalid argument", session.generate, PROMPT)
print("closed objects are refused")
