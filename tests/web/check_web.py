"""Drives the page of `dopplergl serve` in headless Chromium: against the server with the bundled model, and against one that
answers what the case says, in the pieces and at the time that it says.
usage: check_web.py DOPPLERGL [--picture FILE] [CASE...]     Exit code 0 when all cases passed, or there is no Chromium."""
import argparse
import http.server
import json
import queue
import re
import sys
import threading
import time

import browser as chromium
from server import Server

SHOWN = 'document.getElementById("%s").textContent'
TEXTS = '[...document.querySelectorAll("#log article.%s .text")].map(box => box.innerText.trim())'
IDLE = 'document.getElementById("stop").hidden && !document.getElementById("send").disabled'


class Script(http.server.ThreadingHTTPServer):
    """Serves the true page with its true headers; each chat is answered by the next of `answers`, a function of the handler."""
    daemon_threads = True

    def __init__(self, page, policy):
        super().__init__(('127.0.0.1', 0), Handler)
        self.page, self.policy = page, policy
        self.answers, self.bodies, self.below = queue.Queue(), [], 0
        self.models = [(200, {'data': [{'id': 'scripted', 'meta': {'context': 1000}}]})]
        self.url = 'http://127.0.0.1:%d/' % self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a page that went away


class Handler(http.server.BaseHTTPRequestHandler):
    def parse_request(self):
        """What a proxy with this server below a path does."""
        parsed = super().parse_request()
        if parsed and self.path.startswith('/below/'):
            self.path = self.path[len('/below'):]
            self.server.below += 1
        return parsed

    def log_message(self, *args):
        pass

    def send(self, status, body, kind='application/json', **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', kind)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        script = self.server
        if self.path == '/':
            self.send(200, script.page, 'text/html; charset=utf-8', Content_Security_Policy=script.policy)
        elif self.path == '/v1/models':
            self.send(*(script.models.pop(0) if len(script.models) > 1 else script.models[0]))
        else:
            self.send(404, refusal('no path'))

    def do_POST(self):
        script = self.server
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if self.path == '/tokenize':
            self.send(200, {'tokens': body['content'].split()})
            return
        script.bodies.append(body)
        script.answers.get(timeout=chromium.PATIENCE_S)(self)

    def stream(self, *pieces):
        """Bytes, one write for each."""
        self.send(200, b'', 'text/event-stream')
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()


def refusal(message):
    return {'error': {'message': message, 'type': 'invalid_request_error', 'param': None, 'code': None}}


def event(text=None, finish=None, usage=None):
    body = {'choices': [{'index': 0, 'delta': {} if text is None else {'content': text}, 'finish_reason': finish}]}
    if usage:
        body = {'choices': [], 'usage': dict(zip(('prompt_tokens', 'completion_tokens', 'total_tokens'), usage))}
    return b'data: ' + json.dumps(body, ensure_ascii=False).encode() + b'\n\n'


DONE = b'data: [DONE]\n\n'


def says(text, usage=(7, 3, 10)):
    """An answer in one piece."""
    return lambda handler: handler.stream(event(text), event(finish='stop'), event(usage=usage), DONE)


def equal(what, got, wanted):
    if got != wanted:
        raise AssertionError('%s: %r, wanted %r' % (what, got, wanted))


def holds(what, text, part):
    if part not in text:
        raise AssertionError('%s: %r, wanted %r in it' % (what, text, part))


def shown(page, id):
    return page.js(SHOWN % id)


def ready(page):
    page.until(IDLE)


def focus(page, id):
    """By the Tab key alone, from wherever the focus is."""
    for _ in range(60):
        if page.js('document.activeElement.id || document.activeElement.name || ""') == id:
            return
        page.key('Tab')
    raise AssertionError('Tab does not reach #%s' % id)


def ask(page, text, wait=True):
    focus(page, 'prompt')
    page.type(text)
    page.key('Enter')
    if wait:
        page.until('document.querySelector("#log article") !== null')
        ready(page)


# ---- cases against a script: (page, script) -----------------------------------------------------------------------------

def hostile_text_stays_text(page, script):
    text = '<img src=x onerror="document.title=1"><script>document.title=2</script></script><b>b</b> &lt; \u202e'
    fenced = 'before\n```html\n<iframe src="javascript:document.title=3"></iframe>\n```\nafter `<i>x</i>`'
    script.answers.put(says(text + '\n' + fenced))
    ask(page, '<svg onload=document.title=4>')
    log = 'document.getElementById("log")'
    equal('what a user wrote', page.js(TEXTS % 'user'), ['<svg onload=document.title=4>'])
    holds('the answer', page.js(log + '.textContent'), text.replace('\n', ''))
    equal('elements of it', page.js(log + '.querySelectorAll("img,script,iframe,svg,b,i").length'), 0)
    equal('blocks of code', page.js('[...%s.querySelectorAll("pre")].map(pre => pre.textContent)' % log),
          ['<iframe src="javascript:document.title=3"></iframe>'])
    equal('code in a line', page.js(log + '.querySelector("p code").textContent'), '<i>x</i>')
    holds('the title', page.js('document.title'), '<svg onload')


def streams_in_any_pieces(page, script):
    text = 'Gr\u00fc\u00dfe \u2013 \U0001f600 \u65e5\u672c'
    data = b': hello\r\n\r\n' + b''.join(event(part) for part in (text[:3], text[3:7], text[7:])) + \
        event(finish='length') + event(usage=(5, 12, 17)) + DONE
    data = data.replace(b'\n\n', b'\r\n\r\n')
    script.answers.put(lambda handler: handler.stream(*(data[i:i + 1] for i in range(len(data)))))
    ask(page, 'Hi')
    equal('the answer', page.js(TEXTS % 'assistant'), [text])
    note = page.js('document.querySelector("article.assistant .note span").textContent')
    holds('its note', note, '12 tokens')
    holds('its note', note, 'cut at its length')
    equal('context used', shown(page, 'used'), '17 of 1000 tokens')
    equal('the meter', page.js('document.getElementById("context").value'), 17)


def grows_while_it_comes(page, script):
    go, busy = threading.Event(), '%s.getAttribute("aria-busy")' % 'document.getElementById("log")'

    def answer(handler):
        handler.stream(event('One'), event(' two'))
        go.wait(chromium.PATIENCE_S)
        handler.wfile.write(event(' three') + event(usage=(1, 3, 4)) + DONE)
    script.answers.put(answer)
    ask(page, 'Count', wait=False)
    page.until('(%s)[0] === "One two"' % (TEXTS % 'assistant'))
    equal('busy', page.js(busy), 'true')
    equal('Send is there', page.js('document.getElementById("send").disabled'), True)
    go.set()
    ready(page)
    equal('busy', page.js(busy), 'false')
    equal('the answer', page.js(TEXTS % 'assistant'), ['One two three'])
    if not re.fullmatch(r'\d+\.\d tokens/s', shown(page, 'rate')):
        raise AssertionError('the rate: %r' % shown(page, 'rate'))


def reasoning_is_folded(page, script):
    part = b'data: ' + json.dumps({'choices': [{'delta': {'reasoning_content': '<b>Hm</b>'}}]}).encode() + b'\n\n'
    for text in 'Yes', 'No':
        script.answers.put(lambda handler, text=text: handler.stream(part, part, event(text), event(usage=(1, 3, 4)), DONE))
        ask(page, text + '?')
    equal('answers', page.js(TEXTS % 'assistant'), ['Yes', 'No'])
    equal('folded', page.js('[...document.querySelectorAll("details")].map(details => details.open)'), [False, False])
    equal('what is in there', page.js('document.querySelector("details div").textContent'), '<b>Hm</b><b>Hm</b>')
    equal('what is sent again', script.bodies[1]['messages'][1], {'role': 'assistant', 'content': 'Yes'})


def stops_and_regenerates(page, script):
    left = threading.Event()

    def endless(handler):
        handler.stream(event('Once'))
        try:
            while True:
                handler.wfile.write(event(' more'))
                time.sleep(0.02)
        except OSError:
            left.set()
    script.answers.put(endless)
    ask(page, 'A story please', wait=False)
    page.until('(%s).some(text => text.includes("more"))' % (TEXTS % 'assistant'))
    page.key('Escape')
    ready(page)
    if not left.wait(chromium.PATIENCE_S):
        raise AssertionError('the server is not told')
    holds('the note', page.js('document.querySelector("article.assistant .note span").textContent'), 'stopped')
    page.until('%s.startsWith("about ")' % (SHOWN % 'used'))
    script.answers.put(says('Another'))
    focus(page, 'again')
    page.key('Enter')
    page.until('(%s)[0] === "Another"' % (TEXTS % 'assistant'))
    ready(page)
    equal('both requests', script.bodies[1]['messages'], script.bodies[0]['messages'])
    equal('answers', page.js(TEXTS % 'assistant'), ['Another'])
    # Test the button too.
    script.answers.put(endless)
    ask(page, 'More', wait=False)
    page.until('(%s).length === 2' % (TEXTS % 'assistant'))
    focus(page, 'stop')
    page.key('Enter')
    ready(page)
    equal('focus after Stop', page.js('document.activeElement.id'), 'prompt')
    equal('messages of the second', [m['role'] for m in script.bodies[2]['messages']], ['user', 'assistant', 'user'])


def errors_are_told(page, script):
    script.answers.put(lambda handler: handler.send(400, refusal('the prompt has 9 tokens, the context holds 4')))
    ask(page, 'Long')
    holds('a refusal', shown(page, 'problem'), 'the context holds 4')
    equal('no empty answer', page.js(TEXTS % 'assistant'), [])
    script.answers.put(lambda handler: handler.stream(event('Par'), b'data: ' + json.dumps(refusal('lost')).encode() + b'\n\n'))
    focus(page, 'again')
    page.key('Enter')
    page.until('%s === "lost"' % (SHOWN % 'problem'))
    ready(page)
    equal('what came', page.js(TEXTS % 'assistant'), ['Par'])
    equal('focus after Regenerate', page.js('document.activeElement.id'), 'prompt')
    script.answers.put(lambda handler: handler.stream(event('Half')))
    focus(page, 'again')
    page.key('Enter')
    page.until('%s.includes("connection ended")' % (SHOWN % 'problem'))
    ready(page)
    equal('what came', page.js(TEXTS % 'assistant'), ['Half'])
    script.answers.put(lambda handler: handler.send(502, b'<html>proxy</html>', 'text/html'))
    focus(page, 'again')
    page.key('Enter')
    page.until('%s.includes("502")' % (SHOWN % 'problem'))
    ready(page)


def waits_for_the_model(page, script):
    script.models.insert(0, (503, refusal('the model is being loaded')))
    page.open(script.url)
    page.until('%s.includes("being loaded")' % (SHOWN % 'state'))
    page.until('%s === "scripted"' % (SHOWN % 'model'))
    ready(page)


def works_below_a_path(page, script):
    page.open(script.url + 'below/')
    ready(page)
    script.answers.put(says('from below'))
    ask(page, 'Hi')
    equal('the answer', page.js(TEXTS % 'assistant'), ['from below'])
    equal('requests below the path', script.below, 3)


def chats_are_kept(page, script):
    titles = '[...document.querySelectorAll("#list li button:first-child")].map(button => button.textContent)'
    for text in 'First', 'Second':
        script.answers.put(says('Answer to ' + text))
        ask(page, text)
        focus(page, 'new')
        page.key('Enter')
    equal('chats', page.js(titles), ['Second', 'First'])
    page.js('localStorage.setItem("dopplergl.chat.broken", "{\\"messages\\": [1]}")')
    page.js('localStorage.setItem("dopplergl.chat.worse", "not JSON")')
    page.open(script.url)
    ready(page)
    equal('chats after a reload', page.js(titles), ['Second', 'First'])
    equal('the latest is shown', page.js(TEXTS % 'assistant'), ['Answer to Second'])
    # A second tab shows the data of this one, and may delete it.
    other = chromium.Page(page.browser, script.url, page.context)
    ready(other)
    script.answers.put(says('Again'))
    ask(page, 'and more')
    other.until('(%s).at(-1) === "Again"' % (TEXTS % 'assistant'))
    other.js('document.querySelector("#list li button:last-child").focus()')
    other.key('Enter')
    holds('a question', ' '.join(other.dialogs), 'cannot be brought back')
    page.until('(%s).length === 1' % titles)
    equal('chats', page.js(titles), ['First'])
    focus(page, 'forget')
    page.key('Enter')
    page.until('(%s).length === 0' % titles)
    equal('what is stored', page.js('Object.keys(localStorage).filter(name => name.startsWith("dopplergl.chat.") && '
                                    'name !== "dopplergl.chat.broken" && name !== "dopplergl.chat.worse")'), [])
    page.faults += other.faults
    other.close()


def settings_go_out(page, script):
    script.answers.put(says('a'))
    ask(page, 'Hi')
    equal('fields of a request', sorted(script.bodies[0]), ['messages', 'stream', 'stream_options'])
    focus(page, 'open-settings')
    page.key('Enter')
    wanted = {'system': 'Be brief.', 'temperature': '0.5', 'top_p': '0.9', 'top_k': '20', 'max_tokens': '64', 'seed': '7'}
    for name, value in wanted.items():
        focus(page, name)
        page.type(value)
    page.key('Enter')
    page.until('!document.getElementById("settings").open')
    page.open(script.url)  # they are kept
    ready(page)
    script.answers.put(says('b'))
    ask(page, 'Hi again')
    body = script.bodies[1]
    equal('numbers', {name: body.get(name) for name in list(wanted)[1:]},
          {'temperature': 0.5, 'top_p': 0.9, 'top_k': 20, 'max_tokens': 64, 'seed': 7})
    equal('the system prompt', body['messages'][0], {'role': 'system', 'content': 'Be brief.'})
    equal('roles', [m['role'] for m in body['messages']], ['system', 'user', 'assistant', 'user'])
    focus(page, 'open-settings')
    page.key('Enter')
    focus(page, 'top_p')
    page.js('document.activeElement.select()')
    page.type('1.5')
    page.key('Enter')
    equal('a value out of range is refused', page.js('document.getElementById("settings").open'), True)
    focus(page, 'reset')
    page.key('Enter')
    focus(page, 'temperature')
    page.key('Enter')
    page.until('!document.getElementById("settings").open')
    equal('after a reset', page.js('localStorage.getItem("dopplergl.settings")'), '{}')


def lines_and_composed_keys(page, script):
    focus(page, 'prompt')
    page.type('one')
    page.call('Input.dispatchKeyEvent', type='keyDown', key='Enter', code='Enter', windowsVirtualKeyCode=13, modifiers=8,
              text='\r')
    page.type('two')
    equal('Shift+Enter', page.js('document.getElementById("prompt").value'), 'one\ntwo')
    page.js('document.getElementById("prompt").dispatchEvent(new KeyboardEvent("keydown", '
            '{key: "Enter", isComposing: true, bubbles: true, cancelable: true}))')
    equal('Enter of an input method', page.js('document.getElementById("prompt").value'), 'one\ntwo')
    equal('requests', script.bodies, [])


def all_has_a_name_and_can_be_reached(page, script):
    script.answers.put(says('Look:\n```\ncode\n```'))
    ask(page, 'Hi')
    for dialog in None, 'open-settings':
        if dialog:
            focus(page, dialog)
            page.key('Enter')
        tree = page.call('Accessibility.getFullAXTree')['nodes']
        controls = [node for node in tree if not node['ignored'] and node['role']['value'] in
                    ('button', 'textbox', 'spinbutton', 'combobox', 'dialog', 'log', 'navigation', 'meter', 'link')]
        nameless = [node['role']['value'] for node in controls if not node.get('name', {}).get('value')]
        equal('controls without a name', nameless, [])
        if len(controls) < 8:
            raise AssertionError('only %d controls' % len(controls))
    page.key('Escape')
    page.until('!document.getElementById("settings").open')
    page.js('document.body.focus()')
    page.js('''window.met = new Set(); document.addEventListener("focusin", event => met.add(event.target))''')
    for _ in range(40):
        page.key('Tab')
    missed = page.js('''[...document.querySelectorAll("a, button, input, select, textarea, summary, pre, #log")]
        .filter(node => node.checkVisibility() && !node.disabled && !met.has(node)).map(node => node.outerHTML)''')
    equal('what Tab does not reach', missed, [])
    equal('focus is seen', page.js('getComputedStyle(document.activeElement).outlineStyle'), 'solid')


def colours_can_be_read(page, script):
    script.answers.put(says('Text and `code`\n```\nblock\n```'))
    ask(page, 'Hi')
    contrast = '''(() => {
        const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
        const light = colour => numbers(colour).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = node => {
            for (; node; node = node.parentElement) {
                const colour = getComputedStyle(node).backgroundColor, parts = numbers(colour);
                if (parts.length < 4 || parts[3] > 0) return colour;
            }
        };
        document.getElementById("problem").textContent = "problem";
        const low = [];
        for (const node of document.querySelectorAll("body *"))
            if (node.checkVisibility() && !node.disabled && [...node.childNodes].some(n => n.nodeType === 3 && n.data.trim())) {
                const a = light(getComputedStyle(node).color), b = light(ground(node));
                const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (ratio < 4.5) low.push(`${node.outerHTML.slice(0, 80)} ${ratio.toFixed(2)}`);
            }
        return {low, ground: ground(document.body)};
    })()'''
    grounds = {}
    for theme in 'light', 'dark':
        page.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': theme}])
        got = page.js(contrast)
        equal('too little contrast, ' + theme, got['low'], [])
        grounds[theme] = got['ground']
    if grounds['light'] == grounds['dark']:
        raise AssertionError('light and dark look the same: %r' % grounds)
    page.js('localStorage.setItem("dopplergl.settings", JSON.stringify({theme: "light"}))')
    page.open(script.url)
    equal('the setting decides', page.js('getComputedStyle(document.body).backgroundColor'), grounds['light'])


def small_screens(page, script):
    script.answers.put(says('A' * 400 + '\n```\n' + 'B' * 400 + '\n```'))
    ask(page, 'Hi ' + 'C' * 200)
    page.call('Emulation.setDeviceMetricsOverride', width=320, height=568, deviceScaleFactor=1, mobile=True)
    equal('width of the page', page.js('document.documentElement.scrollWidth'), 320)
    equal('the list', page.js('document.getElementById("chats").checkVisibility()'), False)
    focus(page, 'toggle')
    page.key('Enter')
    equal('the list', page.js('document.getElementById("chats").checkVisibility()'), True)
    equal('expanded', page.js('document.getElementById("toggle").ariaExpanded'), 'true')
    page.key('Escape')
    equal('the list', page.js('document.getElementById("chats").checkVisibility()'), False)


def a_full_browser_is_told(page, script):
    page.js('Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }')
    go = threading.Event()

    def answer(handler):
        handler.stream(event('Still'))
        go.wait(chromium.PATIENCE_S)
        handler.wfile.write(DONE)
    script.answers.put(answer)
    ask(page, 'Hi', wait=False)
    page.until('(%s)[0] === "Still"' % (TEXTS % 'assistant'))
    go.set()
    ready(page)
    holds('the problem', shown(page, 'problem'), 'does not store')
    equal('the answer', page.js(TEXTS % 'assistant'), ['Still'])


SCRIPTED = [hostile_text_stays_text, streams_in_any_pieces, grows_while_it_comes, reasoning_is_folded,
            stops_and_regenerates, errors_are_told, waits_for_the_model, works_below_a_path, chats_are_kept, settings_go_out,
            lines_and_composed_keys, all_has_a_name_and_can_be_reached, colours_can_be_read, small_screens,
            a_full_browser_is_told]


# ---- cases against the server: (page, server) -----------------------------------------------------------------------------

def the_key_is_asked_for(page, server):
    page.until('document.getElementById("key").open')
    page.type('wrong')
    page.key('Enter')
    page.until('document.getElementById("key-hint").textContent.includes("does not know")')
    page.key('Escape')
    page.until('%s.includes("press Key")' % (SHOWN % 'problem'))
    focus(page, 'change-key')
    page.key('Enter')
    page.type('sesame')
    page.key('Enter')
    ready(page)
    equal('the model', shown(page, 'model'), 'story-llama-q4_k_m')
    equal('the problem', shown(page, 'problem'), '')
    equal('for this tab', page.js('sessionStorage.getItem("dopplergl.key")'), 'sesame')
    equal('for others', page.js('JSON.stringify(localStorage)').count('sesame'), 0)
    other = chromium.Page(page.browser, server.url + '/', page.context)
    other.until('document.getElementById("key").open')
    other.close()


def the_model_answers(page, server):
    the_key_is_asked_for(page, server)
    focus(page, 'open-settings')
    page.key('Enter')
    for name, value in ('temperature', '0'), ('max_tokens', '60'):
        focus(page, name)
        page.type(value)
    page.key('Enter')
    page.until('!document.getElementById("settings").open')
    question = 'Tell me a story about a dog.'
    ask(page, question)
    page.until('(%s).length === 1' % (TEXTS % 'assistant'))
    equal('the problem', shown(page, 'problem'), '')
    body = {'messages': [{'role': 'user', 'content': question}], 'temperature': 0, 'max_tokens': 60}
    whole = json.loads(server.ask('/v1/chat/completions', body, 'sesame')[1])
    equal('the answer', page.js('document.querySelector("article.assistant .text p").textContent.trim()'),
          whole['choices'][0]['message']['content'].strip())
    equal('context used', shown(page, 'used'), '%d of 512 tokens' % whole['usage']['total_tokens'])
    if not re.fullmatch(r'\d+\.\d tokens/s', shown(page, 'rate')):
        raise AssertionError('the rate: %r' % shown(page, 'rate'))


SERVED = [the_key_is_asked_for, the_model_answers]


# ---- running ------------------------------------------------------------------------------------------------------------

def run(case, browser, url, other, origin, picture=None):
    page = chromium.Page(browser, url)
    try:
        if case not in SERVED:
            ready(page)
        case(page, other)
        equal('faults of the page', page.faults, [])
        equal('addresses of others', [ask for ask in page.asked if not ask.startswith((origin, 'data:', 'about:'))], [])
        if picture:
            page.picture(picture, 960, 600)
        print('ok - ' + case.__name__, flush=True)
        return True
    except Exception as fault:  # whatever goes wrong, the next case has its turn
        print('not ok - %s: %s: %s' % (case.__name__, type(fault).__name__, fault), flush=True)
        return False
    finally:
        page.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('dopplergl')
    parser.add_argument('--picture', help='write one of the page with an answer of the model')
    parser.add_argument('cases', nargs='*')
    args = parser.parse_args()
    program = chromium.find()
    if not program:
        print('check-web: skipped: no Chromium here (the package chromium-headless-shell, or CHROMIUM=PROGRAM)')
        return 0
    picked = [case for case in SCRIPTED + SERVED if not args.cases or case.__name__ in args.cases]
    server = Server(args.dopplergl, '--api-key', 'sesame')
    browser = chromium.Browser(program)
    passed = 0
    try:
        headers, page = server.ask('/')
        for case in picked:
            if case in SERVED:
                last = case is SERVED[-1]
                passed += run(case, browser, server.url + '/', server, server.url, args.picture if last else None)
                continue
            script = Script(page, headers['Content-Security-Policy'])
            passed += run(case, browser, script.url, script, script.url)
            script.shutdown()
            script.server_close()
    finally:
        browser.close()
        server.stop()
    print('%d passed, %d failed' % (passed, len(picked) - passed))
    return 0 if passed == len(picked) and picked else 1


sys.exit(main())
