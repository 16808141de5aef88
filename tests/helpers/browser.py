"""Chromium without a window, driven through its DevTools protocol: pages are opened, looked at, and computed in."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

# Path of the browser, None if it is not installed.
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
# Options with which the browser starts.
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --use-gl=angle "
    "--use-angle=swiftshader --enable-unsafe-swiftshader --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --disable-extensions "
    "--mute-audio --hide-scrollbars --remote-debugging-pipe"
)
# An answer of the browser that takes more seconds is an error.
PATIENCE = 60.0
# A page that has loaded and has asked for nothing for this many seconds counts as ready.
QUIET = 0.15


class Browser:
    """A browser with one tab. `errors` are what pages wrote as errors, threw, or asked for and did not get."""

    def __init__(self, profile: Path):
        assert CHROMIUM is not None
        # The browser reads commands from file descriptor 3 and answers on 4; each message ends in a zero.
        (read, self._write), (self._read, write) = os.pipe(), os.pipe()
        command = ["bash", "-c", f'exec "$@" 3<&{read} 4>&{write}', "chromium", CHROMIUM, *OPTIONS.split()]
        command += [f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            command, pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(read)
        os.close(write)
        self._left, self._number, self._session = b"", 0, None
        self.errors: list[str] = []
        self._asked: dict[str, str] = {}
        self._loaded, self._last = False, time.monotonic()
        target = next(x for x in self.call("Target.getTargets")["targetInfos"] if x["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and close its pipes."""
        self._process.terminate()
        self._process.wait(30)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **params) -> dict:
        """Send a command of the browser's protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self._write, text) :]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._receive(end - time.monotonic())
            if answer is not None and answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
        raise TimeoutError(f"{method}: no answer in {PATIENCE:.0f} s")

    def _receive(self, seconds: float) -> dict | None:
        """Return the next message, or None if there is none in time; events are recorded."""
        while b"\0" not in self._left:
            if not select.select([self._read], [], [], max(seconds, 0))[0]:
                return None
            more = os.read(self._read, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._left += more
        text, _, self._left = self._left.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self._event(message["method"], message["params"])
        return message

    def _event(self, method: str, params: dict) -> None:
        """Record an event: the end of loading, a request, or an error of the page."""
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(x.get("value", x.get("description"))) for x in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self._last = time.monotonic()
            self._asked[params["requestId"]] = params["request"]["url"]
        elif method in ("Network.loadingFinished", "Network.loadingFailed"):
            self._last = time.monotonic()
            url = self._asked.pop(params["requestId"], "")
            if method == "Network.loadingFailed" and not params.get("canceled"):
                self.errors.append(f"{params['errorText']} {url}")

    def open(self, url: str) -> None:
        """Open a page, and wait until it is loaded and has asked for nothing for `QUIET` seconds."""
        self._loaded, self._asked = False, {}
        self.call("Page.navigate", url=url)
        end = time.monotonic() + PATIENCE
        while not self._loaded or time.monotonic() - self._last < QUIET:
            self._receive(0.05)
            if time.monotonic() > end:
                raise TimeoutError(f"{url} is still loading after {PATIENCE:.0f} s: {list(self._asked.values())}")

    def run(self, script: str):
        """Return the value of an expression in the page; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description"))
        return result["result"].get("value")

    def wait(self, script: str, seconds: float = 20.0):
        """Wait until an expression in the page is true, and return its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(script)
            if found:
                return found
            time.sleep(0.05)
        raise TimeoutError(f"not within {seconds:.0f} s: {script}")

    def size(self, width: int, height: int, touch: bool = False) -> None:
        """Set the size of the window in pixels; with `touch` it is that of a phone."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)

    def scheme(self, name: str) -> None:
        """Set the colour scheme that pages are told the reader prefers: "light" or "dark"."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path: Path, whole: bool = False) -> None:
        """Write a picture of the page as PNG: of the window, or of the `whole` page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
