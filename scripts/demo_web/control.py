"""The control page of the demo: a button for each fault, and one that mends all. On loopback, and only for its own page."""
import html
import http.server
import json
import threading

from run.errors import RunError

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>ccld demo</title><link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
button { font: inherit; padding: .4rem .8rem; margin: .25rem .5rem .25rem 0; }
</style></head>
<body><h1>A job of 8 ranks, without a GPU</h1>
<p><a href="%(page)s" target="_blank" rel="noopener">What ccld says about it</a> (keep it beside this one)</p>
<p>%(buttons)s</p><p><button id="mend">Mend everything</button></p>
<p id="said" role="status">%(planted)s</p>
<script>
for (const button of document.querySelectorAll("button")) button.addEventListener("click", async () => {
  const said = document.getElementById("said");
  said.textContent = "...";
  const answer = await fetch("/" + button.id, {method: "POST", headers: {"Content-Type": "application/json"}, body: "{}"});
  said.textContent = (await answer.json()).said;
});
</script></body></html>
"""


def _page(panel, page_url):
    def button(each):
        off = ' disabled title="%s"' % html.escape(each.why_not, quote=True) if each.why_not else ""
        return '<button id="%s"%s>%s</button>' % (each.name, off, html.escape(each.title))
    return PAGE % {"page": html.escape(page_url, quote=True), "buttons": "".join(map(button, panel.buttons)), "planted": html.escape(_words(panel))}


def _words(panel):
    titles = {each.name: each.title for each in panel.buttons}
    return "Planted: %s" % ", ".join(titles[name] for name in panel.planted) if panel.planted else "The job is well."


def serve(panel, page_url, port):
    """A server in a thread of its own; shutdown() and server_close() end it."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            if self.path == "/" and self._is_for_us():
                self._answer(200, "text/html; charset=utf-8", _page(panel, page_url))
            else:
                self._say(404, "there is nothing here")

        def do_POST(self):
            # Another web page cannot send this type without asking first, which nobody here answers.
            if not self._is_for_us() or self.headers.get("Content-Type") != "application/json":
                return self._say(403, "only the control page may do this")
            try:
                if self.path == "/mend":
                    panel.mend()
                else:
                    panel.plant(self.path[1:])
            except KeyError:
                return self._say(404, "there is no such fault")
            except RunError as error:
                return self._say(409, str(error))
            return self._say(200, _words(panel))

        def _is_for_us(self):
            """Not under a name that somebody else's DNS gives to loopback."""
            return self.headers.get("Host") in ("127.0.0.1:%d" % server.server_port, "localhost:%d" % server.server_port)

        def _say(self, status, text):
            self._answer(status, "application/json", json.dumps({"said": text}))

        def _answer(self, status, kind, text):
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
