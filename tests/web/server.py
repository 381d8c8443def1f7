"""`dopplergl serve` with the bundled model, while programs of others speak with it. Standard library only."""
import atexit
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request

# Time to load a model with a cold shader cache on a busy machine.
PATIENCE_S = 180


class Server:
    def __init__(self, program, *args):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ('DOPPLERGL_MODEL', 'DOPPLERGL_API_KEY', 'DOPPLERGL_API_KEY_FILE')}
        environment['XDG_CONFIG_HOME'] = '/dev/null'
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([program, 'serve', '--device', 'any', '--port', '0', '-c', '512', *args],
                                        stderr=self.log, env=environment)
        atexit.register(self.process.kill)  # whatever ends the caller
        end = time.monotonic() + PATIENCE_S
        while not (found := re.search(rb'listening on (http://\S+)', self.said())):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit('the server does not start: %s' % self.said().decode(errors='replace'))
            time.sleep(0.05)
        self.url = found[1].decode()

    def said(self):
        return os.pread(self.log.fileno(), 1 << 20, 0)  # the server writes at the offset that both have

    def ask(self, path, body=None, key=None):
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode() if body else None)
        if key:
            request.add_header('Authorization', 'Bearer ' + key)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return reply.headers, reply.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        if code != 0:
            raise SystemExit('the server ended with %d: %s' % (code, self.said().decode(errors='replace')))
