"""``studio desktop``: the pages in a separate window."""

import re
import shutil
import signal
import subprocess
import sys
import threading
import webbrowser
from typing import IO, Annotated

import typer

from studio.core.errors import BadOption
from studio.core.folders import DEFAULT_DATA, expand_folder
from studio.core.terminal import print_line

# Browsers that can show one page as a window (``--app``).
BROWSERS = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "microsoft-edge", "brave-browser")
_MAC = "/Applications/{0}.app/Contents/MacOS/{0}"
_MAC_BROWSERS = [_MAC.format(name) for name in ("Google Chrome", "Chromium", "Microsoft Edge", "Brave Browser")]
_LINK = re.compile(r"as the owner: (http\S+)")
_END_S = 10.0  # longer than the server needs to finish its utterances


def desktop(
    context: typer.Context,
    browser: Annotated[str, typer.Option(help="Chrome, Chromium, Edge or Brave; by default the first one found.")] = "",
) -> None:
    """Open the studio in a window of its own, until that is closed. All other options are those of studio app."""
    known = filter(None, map(shutil.which, [*BROWSERS, *_MAC_BROWSERS]))
    program = shutil.which(browser) if browser else next(known, "")
    if program is None:
        raise BadOption(f"there is no program {browser!r}", f"give the path of one of {', '.join(BROWSERS)}")
    # A separate profile: else a running browser would open the window, and this command would end immediately.
    profile = expand_folder(DEFAULT_DATA / "window", "set HOME or XDG_DATA_HOME")
    command = [sys.executable, "-m", "studio", "app", *context.args]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the server ends as well
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            if not (link := _read_link(server)):
                raise typer.Exit(server.wait())
            if not program:
                print_line("There is no Chrome, Chromium, Edge or Brave: the page opens in a tab.", err=True)
                webbrowser.open(link)
                server.wait()
                return
            window = [program, f"--app={link}", f"--user-data-dir={profile}", "--no-first-run"]
            if (code := subprocess.run(window, check=False).returncode) > 0:  # for example as root or without a display
                print_line(f"{program} ended with {code}: open the link in another browser. Ctrl+C ends.", err=True)
                server.wait()
        finally:
            server.terminate()
            server.wait(_END_S)


def _read_link(server: "subprocess.Popen[str]") -> str:
    """The link that the server prints when it is ready; "" if it ended. Its output is copied to stderr, also later."""
    assert server.stderr is not None
    for line in server.stderr:
        print_line(line, err=True, end="")
        if found := _LINK.search(line):
            threading.Thread(target=_pass_on, args=(server.stderr,), daemon=True).start()
            return found[1]
    return ""


def _pass_on(lines: IO[str]) -> None:
    for line in lines:
        print_line(line, err=True, end="")
