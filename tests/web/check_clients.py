"""Programs of others against `dopplergl serve` with the bundled model: PyPI's openai, and llm. Run by check_clients.sh in an
environment that has them.
usage: check_clients.py DOPPLERGL [--record FOLDER] [CASE...]   --record keeps what they sent and the shape of what they got:
the vectors of tests/cli/test_cli_clients.c. Exit code 0 when all cases passed."""
import argparse
import asyncio
import base64
import json
import math
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import caller_model
import openai
from server import PATIENCE_S, Server

KEY = 'sesame'
MODEL = 'story-llama-q4_k_m'
GREEDY = {'temperature': 0, 'max_tokens': 12}
SAY = [{'role': 'user', 'content': 'Tell me a story about a dog.'}]
TOOLS = [{'type': 'function', 'function': {
    'name': 'weather', 'description': 'Weather of a place', 'parameters': {
        'type': 'object', 'properties': {'place': {'type': 'string'}}, 'required': ['place']}}}]


# ---- between a client and the server ------------------------------------------------------------------------------------

def one_message(data, ended=False):
    """The first HTTP message of these bytes and the rest, or None while it is not whole: lengths and chunks alone. `ended`:
    no more comes; a client may close a stream once it has read [DONE]."""
    head, found, rest = data.partition(b'\r\n\r\n')
    if not found:
        return None
    head += found
    if re.search(rb'(?i)\r\ntransfer-encoding: *chunked\r\n', head):
        body = b''
        while True:
            line, found, more = rest.partition(b'\r\n')
            if not found or len(more) < int(line, 16) + 2:
                return (head, body, b'') if ended else None
            size = int(line, 16)
            body, rest = body + more[:size], more[size + 2:]
            if size == 0:
                return head, body, rest
    length = re.search(rb'(?i)\r\ncontent-length: *(\d+)\r\n', head)
    size = int(length[1]) if length else 0
    return (head, rest[:size], rest[size:]) if len(rest) >= size else None


class Pair:
    def __init__(self):
        self.sent, self.got, self.open = bytearray(), bytearray(), True


class Recorder:
    """Passes bytes on in both directions and keeps them, connection by connection."""

    def __init__(self, port):
        self.port, self.lock, self.pairs = port, threading.Lock(), []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = 'http://127.0.0.1:%d' % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            server = socket.create_connection(('127.0.0.1', self.port))
            pair = Pair()
            with self.lock:
                self.pairs.append(pair)
            threading.Thread(target=self.copy, args=(client, server, pair.sent, pair), daemon=True).start()
            threading.Thread(target=self.copy, args=(server, client, pair.got, pair), daemon=True).start()

    def copy(self, source, sink, kept, pair):
        try:
            while data := source.recv(1 << 16):
                with self.lock:
                    kept += data
                sink.sendall(data)
        except OSError:
            pass
        for end in source, sink:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.lock:
            pair.open = False

    def take(self):
        """[(request, body, answer's head, answer's body)] since the last call. Waits for the ends of answers on connections
        that are open: a client may have had enough before."""
        exchanges, end = [], time.monotonic() + PATIENCE_S
        while True:
            with self.lock:
                for pair in self.pairs:
                    while (request := one_message(bytes(pair.sent))) and (
                            answer := one_message(bytes(pair.got), not pair.open)):
                        exchanges.append((request[0], request[1], answer[0], answer[1]))
                        del pair.sent[:len(pair.sent) - len(request[2])], pair.got[:len(pair.got) - len(answer[2])]
                self.pairs = [pair for pair in self.pairs if pair.open]
                if not any(pair.sent for pair in self.pairs) or time.monotonic() > end:
                    return exchanges
            time.sleep(0.01)


def clean(head):
    """Without the key, and with a host that is nobody's."""
    head = re.sub(rb'(?i)\r\nauthorization: [^\r\n]*', b'', head)
    head = re.sub(rb'(?i)\r\nhost: [^\r\n]*', b'\r\nHost: localhost', head)
    head = re.sub(rb'(?i)\r\n(user-agent|x-stainless-[a-z-]*version): [^\r\n]*', rb'\r\n\1: any', head)
    assert KEY.encode() not in head and b'127.0.0.1' not in head
    return head


def shape_of(value, path='$'):
    """Lines "PATH TYPE" of a value of JSON; elements of a list share a path."""
    if isinstance(value, dict):
        return {'%s object' % path}.union(*(shape_of(v, '%s.%s' % (path, k)) for k, v in value.items()))
    if isinstance(value, list):
        return {'%s array' % path}.union(*(shape_of(v, path + '[]') for v in value))
    kinds = {str: 'string', bool: 'bool', int: 'number', float: 'number', type(None): 'null'}
    return {'%s %s' % (path, kinds[type(value)])}


def shape_of_answer(head, body):
    lines = set()
    if b'text/event-stream' in head:
        events = [line[6:] for line in body.decode().split('\n') if line.startswith('data: ')]
        assert events[-1] == '[DONE]', events
        for event in events[:-1]:
            lines |= shape_of(json.loads(event))
        lines.add('[DONE]')
    else:
        lines = shape_of(json.loads(body))
    return '%s\n' % head.split(b' ')[1].decode() + ''.join(line + '\n' for line in sorted(lines))


# ---- cases --------------------------------------------------------------------------------------------------------------

def holds(what, truth):
    if not truth:
        raise AssertionError(what)


def equal(what, got, wanted):
    if got != wanted:
        raise AssertionError('%s: %r, wanted %r' % (what, got, wanted))


def refused(kind, call, *parts):
    """The error of a call, which is of this class and says these parts."""
    try:
        call()
    except kind as error:
        for part in parts:
            holds('%r in %r' % (part, str(error)), part in str(error))
        return error
    raise AssertionError('no %s' % kind.__name__)


class Bench:
    """What a case gets: the address of the server and a client of it; `caller` has a model that calls the tool `weather`."""

    def __init__(self, url, caller):
        self.url, self.caller_url = url, caller
        self.client, self.caller = (openai.OpenAI(base_url=at + '/v1', api_key=KEY, max_retries=0, timeout=PATIENCE_S)
                                    for at in (url, caller))


def openai_models(bench):
    models = bench.client.models.list().data
    equal('models', [model.id for model in models], [MODEL])
    equal('the model', bench.client.models.retrieve(MODEL).id, MODEL)
    refused(openai.NotFoundError, lambda: bench.client.models.retrieve('gpt-4'), 'gpt-4')


def openai_chat(bench):
    answer = bench.client.chat.completions.create(model=MODEL, messages=SAY, **GREEDY)
    choice = answer.choices[0]
    holds('text', choice.message.content)
    equal('role', choice.message.role, 'assistant')
    equal('finish', choice.finish_reason, 'length')
    equal('tokens', answer.usage.completion_tokens, 12)
    equal('calls', choice.message.tool_calls, None)
    again = bench.client.chat.completions.create(model=MODEL, messages=SAY, **GREEDY)
    equal('again', again.choices[0].message.content, choice.message.content)


def openai_chat_fields(bench):
    answer = bench.client.chat.completions.create(
        model=MODEL, n=2, seed=5, temperature=0.8, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.1, stop=['\n\n'],
        max_completion_tokens=8, logprobs=True, top_logprobs=2, logit_bias={'5': -100}, user='someone',
        extra_body={'top_k': 20, 'min_p': 0.05},
        messages=[{'role': 'developer', 'content': 'Be brief.'},
                  {'role': 'user', 'content': [{'type': 'text', 'text': 'Once'}, {'type': 'text', 'text': ' upon'}]}])
    equal('choices', [choice.index for choice in answer.choices], [0, 1])
    for token in answer.choices[0].logprobs.content:
        equal('top', len(token.top_logprobs), 2)
        holds('logprob %g' % token.logprob, token.logprob <= 0)


def openai_stream(bench):
    whole = bench.client.chat.completions.create(model=MODEL, messages=SAY, **GREEDY)
    text, usage, finish = '', None, None
    for chunk in bench.client.chat.completions.create(model=MODEL, messages=SAY, stream=True,
                                                      stream_options={'include_usage': True}, **GREEDY):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ''
            finish = choice.finish_reason or finish
    equal('text', text, whole.choices[0].message.content)
    equal('finish', finish, 'length')
    equal('usage', usage.total_tokens, whole.usage.total_tokens)


def openai_stream_helper(bench):
    # The client raises an error if an answer is cut at its length.
    with bench.client.chat.completions.stream(model=MODEL, messages=SAY, temperature=0, max_tokens=64, stop='.') as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    holds('kinds %r' % kinds, {'chunk', 'content.delta', 'content.done'} <= kinds)
    holds('text', final.choices[0].message.content)


def openai_stream_closed(bench):
    """Who closes a stream is left alone, and the next is answered."""
    stream = bench.client.chat.completions.create(model=MODEL, messages=SAY, stream=True, max_tokens=400,
                                                  extra_body={'ignore_eos': True})
    next(iter(stream))
    stream.close()
    holds('text', bench.client.chat.completions.create(model=MODEL, messages=SAY, **GREEDY).choices[0].message.content)


def openai_async(bench):
    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=bench.url + '/v1', api_key=KEY, timeout=PATIENCE_S) as client:
            return await asyncio.gather(*(client.chat.completions.create(model=MODEL, messages=SAY, **GREEDY)
                                          for _ in range(6)))
    answers = asyncio.run(all_of_them())
    equal('texts', len({answer.choices[0].message.content for answer in answers}), 1)


def openai_tools(bench):
    """A story-teller calls nothing: tools, and what earlier calls said, must not hinder it. Answers go back as they came."""
    call = {'id': 'call_1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{"place": "Wien"}'}}
    messages = [{'role': 'user', 'content': 'How is the weather?'},
                {'role': 'assistant', 'content': None, 'tool_calls': [call]},
                {'role': 'tool', 'tool_call_id': 'call_1', 'content': 'sunny'}]
    for asked in SAY, messages:
        answer = bench.client.chat.completions.create(model=MODEL, messages=asked, tools=TOOLS, tool_choice='auto', **GREEDY)
        equal('calls', answer.choices[0].message.tool_calls, None)
        holds('finish', answer.choices[0].finish_reason in ('length', 'stop'))
        text = ''.join(chunk.choices[0].delta.content or '' for chunk in bench.client.chat.completions.create(
            model=MODEL, messages=asked, tools=TOOLS, stream=True, **GREEDY))
        equal('streamed', text, answer.choices[0].message.content)
    more = [*SAY, answer.choices[0].message, {'role': 'user', 'content': 'And then?'}]
    holds('text', bench.client.chat.completions.create(model=MODEL, messages=more, **GREEDY).choices[0].message.content)


def openai_tool_calls(bench):
    """Whole, streamed, and on with what the tool said."""
    ask = {'model': 'caller', 'tools': TOOLS, **GREEDY}
    answer = bench.caller.chat.completions.create(messages=SAY, **ask).choices[0]
    equal('finish', answer.finish_reason, 'tool_calls')
    equal('content', answer.message.content, 'I look.')
    equal('calls', [call.function.name for call in answer.message.tool_calls], ['weather'])
    equal('arguments', json.loads(answer.message.tool_calls[0].function.arguments), {'place': 'Wien'})
    with bench.caller.chat.completions.stream(messages=SAY, **ask) as stream:
        streamed = stream.get_final_completion().choices[0]
    equal('finish of a stream', streamed.finish_reason, 'tool_calls')
    equal('calls of a stream', [(call.function.name, call.function.arguments) for call in streamed.message.tool_calls],
          [(call.function.name, call.function.arguments) for call in answer.message.tool_calls])
    for choice in answer, streamed:
        said = {'role': 'tool', 'tool_call_id': choice.message.tool_calls[0].id, 'content': 'sunny'}
        last = bench.caller.chat.completions.create(messages=[*SAY, choice.message, said], **ask).choices[0]
        equal('the end', (last.message.content, last.finish_reason), ('It is sunny.', 'stop'))


def openai_completions(bench):
    answer = bench.client.completions.create(model=MODEL, prompt='Once upon a time', logprobs=2, **GREEDY)
    text = answer.choices[0].text
    holds('text', text)
    equal('logprobs', len(answer.choices[0].logprobs.token_logprobs), 12)
    equal('streamed', ''.join(chunk.choices[0].text for chunk in bench.client.completions.create(
        model=MODEL, prompt='Once upon a time', stream=True, **GREEDY)), text)
    several = bench.client.completions.create(model=MODEL, prompt=['Once', 'A dog'], **GREEDY)
    equal('choices', len(several.choices), 2)


def openai_embeddings(bench):
    """Asks for base64 unless told, and decodes it."""
    coded = bench.client.embeddings.create(model=MODEL, input=['a dog', 'a cat'])
    plain = bench.client.embeddings.create(model=MODEL, input='a cat', encoding_format='float')
    vector = coded.data[1].embedding
    if isinstance(vector, str):
        vector = struct.unpack('<%df' % (len(base64.b64decode(vector)) // 4), base64.b64decode(vector))
    holds('length', abs(math.fsum(v * v for v in vector) - 1) < 1e-4)
    worst = max(abs(a - b) for a, b in zip(vector, plain.data[0].embedding))
    holds('base64 and float differ by %g' % worst, worst < 1e-5)


def openai_errors(bench):
    chat = bench.client.chat.completions.create
    error = refused(openai.NotFoundError, lambda: chat(model='gpt-4', messages=SAY), 'gpt-4')
    equal('code', error.code, 'model_not_found')
    error = refused(openai.BadRequestError, lambda: chat(model=MODEL, messages=SAY, temperature=-1), '-1')
    equal('param', error.param, 'temperature')
    error = refused(openai.BadRequestError, lambda: chat(model=MODEL, messages=SAY, response_format={'type': 'xml'}))
    equal('param', error.param, 'response_format')
    error = refused(openai.BadRequestError, lambda: bench.client.completions.create(model=MODEL, prompt=[1] * 600), '600')
    equal('code', error.code, 'context_length_exceeded')
    refused(openai.BadRequestError, lambda: bench.client.responses.create(model=MODEL, input='Hi'), 'chat/completions')


def openai_wrong_key(bench):
    client = openai.OpenAI(base_url=bench.url + '/v1', api_key='wrong', max_retries=0)
    error = refused(openai.AuthenticationError, client.models.list)
    equal('code', error.code, 'invalid_api_key')


def run_llm(bench, folder, *args):
    environment = dict(os.environ, LLM_USER_PATH=folder)
    with open(os.path.join(folder, 'extra-openai-models.yaml'), 'w') as out:
        out.write('- model_id: doppler\n  model_name: %s\n  api_base: %s/v1\n  api_key_name: doppler\n' % (MODEL, bench.url))
        out.write('- model_id: caller\n  model_name: caller\n  api_base: %s/v1\n  api_key_name: doppler\n'
                  '  supports_tools: true\n' % bench.caller_url)
    ran = subprocess.run([os.path.join(os.path.dirname(sys.executable), 'llm'), *args], env=environment, capture_output=True,
                         text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S)
    if ran.returncode != 0:
        raise AssertionError('llm ended with %d: %s' % (ran.returncode, ran.stderr))
    return ran.stdout.strip()


def llm_prompt(bench):
    with tempfile.TemporaryDirectory() as folder:
        ask = ['-m', 'doppler', '--key', KEY, '-o', 'temperature', '0', '-o', 'max_tokens', '12']
        streamed = run_llm(bench, folder, 'Tell me a story about a dog.', '-s', 'Be brief.', *ask)
        whole = run_llm(bench, folder, 'Tell me a story about a dog.', '-s', 'Be brief.', '--no-stream', *ask)
        holds('text', streamed)
        equal('whole', whole, streamed)
        holds('the conversation goes on', run_llm(bench, folder, '-c', 'And then?', *ask))


def llm_tools(bench):
    """llm runs the function that the model calls and tells it what came of it."""
    function = 'def weather(place: str) -> str:\n    return "sunny in " + place\n'
    for more in [], ['--no-stream']:
        with tempfile.TemporaryDirectory() as folder:
            said = run_llm(bench, folder, 'How is the weather?', '-m', 'caller', '--key', KEY, '-o', 'temperature', '0',
                           '--functions', function, '--tools-debug', *more)
            holds('the end of %r' % said, said.endswith('It is sunny.'))


CASES = [openai_models, openai_chat, openai_chat_fields, openai_stream, openai_stream_helper, openai_stream_closed,
         openai_async, openai_tools, openai_tool_calls, openai_completions, openai_embeddings, openai_errors, openai_wrong_key,
         llm_prompt, llm_tools]
# Requests that add no coverage, depend on the time of an abort, or are for another model.
NOT_KEPT = [openai_stream_closed, openai_async, openai_tool_calls, openai_wrong_key, llm_tools]


def record(folder, case, exchanges):
    """Requests of one case, each with the shape of its answer; equal ones once."""
    kept = set()
    for head, body, answer, data in exchanges:
        request = clean(head) + body
        if request in kept:
            continue
        name = os.path.join(folder, '%s_%d' % (case.__name__, len(kept) + 1))
        kept.add(request)
        with open(name + '.request', 'wb') as out:
            out.write(request)
        with open(name + '.shape', 'w') as out:
            out.write(shape_of_answer(answer, data))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('dopplergl')
    parser.add_argument('--record', help='a folder for the vectors')
    parser.add_argument('cases', nargs='*')
    args = parser.parse_args()
    picked = [case for case in CASES if not args.cases or case.__name__ in args.cases]
    folder = tempfile.TemporaryDirectory()
    model = os.path.join(folder.name, 'caller')
    os.mkdir(model)
    caller_model.write(model)
    tools = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'data', 'templates', 'tools.jinja')
    servers = [Server(args.dopplergl, '--api-key', KEY, '--template', tools), Server(args.dopplergl, '--api-key', KEY, '-m', model)]
    recorder = Recorder(int(servers[0].url.rpartition(':')[2]))
    bench, passed = Bench(recorder.url, servers[1].url), 0
    if args.record:
        os.makedirs(args.record, exist_ok=True)
        for name in os.listdir(args.record):
            os.remove(os.path.join(args.record, name))
    print('openai %s' % openai.__version__, flush=True)
    try:
        for case in picked:
            try:
                case(bench)
                exchanges = recorder.take()
                if args.record and case not in NOT_KEPT:
                    record(args.record, case, exchanges)
                passed += 1
                print('ok - ' + case.__name__, flush=True)
            except Exception as fault:  # whatever goes wrong, the next case has its turn
                print('not ok - %s: %s: %s' % (case.__name__, type(fault).__name__, fault), flush=True)
    finally:
        for server in servers:
            server.stop()
        folder.cleanup()
    print('%d passed, %d failed' % (passed, len(picked) - passed))
    return 0 if passed == len(picked) and picked else 1


if __name__ == '__main__':
    sys.exit(main())
