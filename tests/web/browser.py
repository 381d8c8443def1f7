"""Headless Chromium over its debugging pipe: pages, keys, what the console and the network saw. Standard library only."""
import base64
import json
import os
import shutil
import select
import subprocess
import tempfile
import time

# On a busy machine with sanitizers, a browser needs tens of seconds to start.
PATIENCE_S = 60
NAMES = ('chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'chrome')
KEYS = {
    'Tab': (9, 'Tab', None), 'Enter': (13, 'Enter', '\r'), 'Escape': (27, 'Escape', None), ' ': (32, 'Space', ' '),
}


def find():
    """The program that CHROMIUM names, or the first of NAMES in PATH; None when there is none."""
    wanted = os.environ.get('CHROMIUM')
    if wanted:
        return shutil.which(wanted)
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix='dopplergl-web-')
        to_it, self.write = os.pipe()
        self.read, from_it = os.pipe()
        args = [program, '--headless', '--remote-debugging-pipe', '--disable-gpu', '--no-first-run', '--hide-scrollbars',
                '--disable-background-networking', '--disable-component-update', '--disable-dev-shm-usage',
                '--force-color-profile=srgb', '--user-data-dir=' + self.folder]
        if os.geteuid() == 0:
            args.append('--no-sandbox')  # Chromium refuses to be root with one

        def wire():
            # Duplicate both first: one of them may already be descriptor 3 or 4.
            first, second = os.dup(to_it), os.dup(from_it)
            os.dup2(first, 3)
            os.dup2(second, 4)
        self.log = open(os.path.join(self.folder, 'log'), 'wb')
        self.process = subprocess.Popen(args, preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        os.close(to_it)
        os.close(from_it)
        self.held, self.number, self.pages = b'', 0, {}

    def message(self, until):
        while b'\0' not in self.held:
            if not select.select([self.read], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError('the browser says nothing')
            got = os.read(self.read, 1 << 16)
            if not got:
                raise EOFError('the browser ended: ' + open(self.log.name, errors='replace').read()[-2000:])
            self.held += got
        text, self.held = self.held.split(b'\0', 1)
        return json.loads(text)

    def post(self, method, session, params):
        self.number += 1
        ask = {'id': self.number, 'method': method, 'params': params}
        if session:
            ask['sessionId'] = session
        data = json.dumps(ask).encode() + b'\0'
        while data:
            data = data[os.write(self.write, data):]
        return self.number

    def call(self, method, session=None, **params):
        number, until = self.post(method, session, params), time.monotonic() + PATIENCE_S
        while True:
            message = self.message(until)
            if message.get('id') == number:
                if 'error' in message:
                    raise RuntimeError('%s: %s' % (method, message['error']))
                return message['result']
            page = self.pages.get(message.get('sessionId'))
            if page and 'method' in message:
                page.heard(message['method'], message['params'])

    def context(self):
        """Storage of its own."""
        return self.call('Target.createBrowserContext')['browserContextId']

    def close(self):
        try:
            self.call('Browser.close')
            self.process.wait(PATIENCE_S)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        os.close(self.read)
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    def __init__(self, browser, url, context=None):
        self.browser, self.context = browser, context or browser.context()
        self.faults, self.asked, self.dialogs = [], [], []
        target = browser.call('Target.createTarget', url='about:blank', browserContextId=self.context)['targetId']
        self.target = target
        self.session = browser.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        browser.pages[self.session] = self
        for domain in 'Page', 'Runtime', 'Log', 'Network', 'DOM', 'Accessibility':
            self.call(domain + '.enable')
        self.open(url)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def heard(self, method, params):
        if method == 'Runtime.exceptionThrown':
            self.faults.append(params['exceptionDetails'].get('exception', {}).get('description', 'exception'))
        elif method == 'Runtime.consoleAPICalled' and params['type'] in ('error', 'warning', 'assert'):
            self.faults.append('console: %s' % params['args'])
        elif method == 'Log.entryAdded' and params['entry']['source'] != 'network':
            self.faults.append(params['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            self.asked.append(params['request']['url'])
        elif method == 'Page.javascriptDialogOpening':
            # Do not wait: the command that opened the dialog has not returned yet.
            self.dialogs.append(params['message'])
            self.browser.post('Page.handleJavaScriptDialog', self.session, {'accept': True})

    def open(self, url):
        self.call('Page.navigate', url=url)
        self.until('document.readyState === "complete" && location.href !== "about:blank"')

    def js(self, text):
        """The value of an expression."""
        got = self.call('Runtime.evaluate', expression=text, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in got:
            raise RuntimeError('%s: %s' % (text, got['exceptionDetails']))
        return got['result'].get('value')

    def until(self, text):
        """Waits until an expression is true, and returns its value."""
        end = time.monotonic() + PATIENCE_S
        while True:
            value = self.js(text)
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError('never true: %s; the page: %s' % (text, self.js('document.body.innerText')))
            time.sleep(0.02)

    def key(self, key, shift=False):
        code, name, text = KEYS[key]
        common = dict(key=key, code=name, windowsVirtualKeyCode=code, modifiers=8 if shift else 0)
        self.call('Input.dispatchKeyEvent', type='keyDown', **common, **({'text': text} if text else {}))
        self.call('Input.dispatchKeyEvent', type='keyUp', **common)

    def type(self, text):
        self.call('Input.insertText', text=text)

    def picture(self, path, width, height):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        data = self.call('Page.captureScreenshot', format='png', captureBeyondViewport=False)['data']
        with open(path, 'wb') as out:
            out.write(base64.b64decode(data))

    def close(self):
        self.browser.call('Target.closeTarget', targetId=self.target)
        self.browser.pages.pop(self.session, None)
