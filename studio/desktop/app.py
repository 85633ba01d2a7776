"""``studio type``: type in a terminal and hear the text spoken; a Textual app."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Input, Label, Select, Static

from studio.core.errors import StudioError
from studio.core.options import OptionSpec, parse_options
from studio.core.plurals import counted
from studio.desktop.line import Line
from studio.desktop.session import MAX_LINE_CHARS, Session
from studio.desktop.widgets import SILENT_DB, Field, Spectrogram, Spoken, level_db, meter

_FRAME_S = 0.05  # between screen updates; the length of a spectrogram column
_LINES = 100  # on the screen
_MAX_CHOICES = 40  # of an integer option with a menu; others have a text field


class TypeApp(App[None]):
    """The screen of a session.

    Args:
        outputs: names of audio outputs to choose from.
        folder: for recordings, which Ctrl+R starts.
    """

    TITLE = "studio type"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "app.tcss"
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (70, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (16, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "interrupt", "Interrupt"),
        Binding("ctrl+r", "record", "Record", priority=True),
        Binding("ctrl+t", "theme", "Light/dark", priority=True),
        Binding("f2", "panel", "Voice", priority=True),
        Binding("ctrl+q", "quit", "Quit", priority=True),
    ]

    def __init__(
        self, session: Session, outputs: Sequence[str] = (), folder: Path = Path(), *, is_light: bool = False
    ) -> None:
        super().__init__()
        self.session, self._outputs, self._folder = session, outputs, folder
        self._voice_select = self._select("voice", self._voices(), self._voice())
        self._position = 0  # of the player, at the last update
        self.theme = "textual-light" if is_light else "textual-dark"

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="main"):
                yield Static(id="title")
                yield VerticalScroll(id="lines", can_focus=False)
                yield Field(
                    self._edit,
                    {"enter": self._complete, "escape": self.action_interrupt},
                    MAX_LINE_CHARS,
                    "Type. Speech starts after the first words.",
                )
                yield Spectrogram()
                yield Static(id="figures")
            with VerticalScroll(id="panel", can_focus=False):
                yield Label("Voice")
                yield self._voice_select
                yield Vertical(id="options")
                yield Label("Output")
                yield self._select("output", list(self._outputs), self.session.output_name)
        yield Footer()

    async def on_mount(self) -> None:
        self._field, self._lines = self.query_one(Field), self.query_one("#lines")
        self._spectrogram = self.query_one(Spectrogram)
        self._title, self._figures = self.query_one("#title", Static), self.query_one("#figures", Static)
        self._field.focus()
        self.theme_changed_signal.subscribe(self, lambda _: self._spectrogram.recolour())
        self._spectrogram.recolour()
        self.query_one("#panel").display = self.size.width >= 100
        await self._show_options()
        self.set_interval(_FRAME_S, self._show)

    # --- typing ---------------------------------------------------------------------------------------

    def _edit(self, at: int, remove: int, insert: str, key_s: float) -> None:
        if self.session.typing is None:  # white space does not begin a line
            at, remove, insert = 0, 0, self._field.text
        if not insert.strip() and self.session.typing is None:
            return
        try:
            self.session.edit(at, remove, insert, key_s)
        except StudioError as error:
            self._complain(error)

    def _complete(self) -> None:
        self._keep(self.session.end_line())

    def action_interrupt(self) -> None:
        """Stop the sound; the line stays on the screen."""
        self._keep(self.session.interrupt())

    def _keep(self, line: Line | None) -> None:
        """Move a line above the field, and empty the field."""
        self._field.reset()
        if line is not None:
            self._lines.mount(Spoken(line))
            for old in self._lines.query(Spoken)[:-_LINES]:
                old.remove()
            self._lines.scroll_end(animate=False)

    # --- panel ----------------------------------------------------------------------------------------

    def _voices(self) -> list[str]:
        return [f"{card.name}:{speaker}" for card in self.session.cards.values() for speaker in card.speakers]

    def _voice(self) -> str:
        speaker = self.session.request.voice.partition(":")[2] or self.session.card.speakers_default_first[0]
        return f"{self.session.card.name}:{speaker}"

    @staticmethod
    def _select(name: str, values: Sequence[Any], value: Any) -> Select[Any]:
        values = values if value in values else [value, *values]
        return Select(
            [(str(one) or "default", one) for one in values], value=value, allow_blank=False, id=name, compact=True
        )

    async def _show_options(self) -> None:
        box, values = self.query_one("#options"), self.session.options
        self._voice_select.value = self._voice()
        await box.remove_children()
        for spec in self.session.card.options:
            name, value = f"option-{spec.name}", values[spec.name]
            label = Label(spec.label or spec.name)
            label.tooltip = spec.help
            choices = _choices(spec)
            await box.mount(
                label, self._select(name, choices, value) if choices else Input(str(value), id=name, compact=True)
            )

    def on_select_changed(self, event: Select.Changed) -> None:
        select: Select[Any] = event.select
        if select.id == "voice" and event.value != self._voice():
            self._load_voice(str(event.value))
        elif select.id == "output" and event.value != self.session.output_name:
            self._change(self.session.set_output, str(event.value))
            select.value = self.session.output_name
        elif select.id and select.id.startswith("option-"):
            select.value = self._set_option(select.id, event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.value = str(self._set_option(event.input.id or "", event.value))

    def _set_option(self, widget: str, value: Any) -> Any:
        """Set a widget's option, and return the option's current value."""
        name, specs = widget.removeprefix("option-"), self.session.card.options
        if str(self.session.options.get(name, value)) != str(value):
            try:
                self.session.set_options(parse_options(specs, [f"{name}={value}"]))
            except StudioError as error:
                self._complain(error)
        return self.session.options.get(name, value)  # absent: an option of the previous voice

    @work(thread=True, exclusive=True)
    def _load_voice(self, voice: str) -> None:
        self.call_from_thread(self.notify, f"{voice} is being loaded")
        try:
            request = self.session.load_voice(voice)
        except StudioError as error:
            self.call_from_thread(self._complain, error)
        else:  # in the thread that reads keys, so that no key comes in between
            self.call_from_thread(self._change, self.session.set_voice, request)
        self.call_from_thread(self._show_options)

    def action_panel(self) -> None:
        """Show or hide the panel, and move the focus to it or back."""
        panel = self.query_one("#panel")
        panel.display = not panel.display
        (self.query_one("#voice") if panel.display else self._field).focus()

    def action_theme(self) -> None:
        """Change between light and dark."""
        self.theme = "textual-dark" if self.theme == "textual-light" else "textual-light"

    def action_record(self) -> None:
        """Start or stop recording lines as they end."""
        self.session.folder = None if self.session.folder else self._folder

    # --- playback -------------------------------------------------------------------------------------

    def _show(self) -> None:
        session, player = self.session, self.session.player
        while session.errors:
            self._complain(session.errors.popleft())
            if session.typing is None:  # the text in the field is that of the failed line
                self._field.reset()
        line = session.typing
        self._field.light(line.heard if line else (0, 0))
        for spoken in self._lines.query(Spoken):
            spoken.show()
        before, self._position = self._position, player.position()
        now = player.before(self._position, round(_FRAME_S * player.rate_hz))
        is_heard = self._position != before
        if is_heard:
            self._spectrogram.add(now, player.rate_hz)
        latencies_ms = [*session.latencies_ms, line.latency_ms if line else None]
        latency_ms = next((one for one in reversed(latencies_ms) if one is not None), None)
        figures = [
            "" if latency_ms is None else f"word to sound {latency_ms:.0f} ms",
            counted(session.underruns, "underrun"),
            f"taken back {session.retracted}" if session.retracted else "",
        ]
        level = meter(level_db(now) if is_heard else SILENT_DB)
        self._figures.update(
            Text.assemble((level, self.theme_variables["primary"]), "   ", "   ".join(filter(None, figures)))
        )
        title = Text.assemble(("studio type", "bold"), f"   {self._voice()}")
        if session.folder:
            title.append("   ● ", "bold red").append(f"{counted(len(session.recorded), 'line')} in {session.folder}")
        self._title.update(title)

    def _change(self, change: Callable[[Any], Line | None], value: Any) -> None:
        """Change the voice or the output. The line being typed moves above the field; after an error it continues."""
        try:
            line = change(value)
        except StudioError as error:
            self._complain(error)
        else:
            self._keep(line)

    def _complain(self, error: StudioError) -> None:
        self.notify(str(error), severity="error", markup=False)


def _choices(spec: OptionSpec) -> Sequence[Any]:
    """The values for an option's menu; empty if they cannot be listed."""
    if spec.kind == "int" and spec.low is not None and spec.high is not None and spec.high - spec.low < _MAX_CHOICES:
        return range(int(spec.low), int(spec.high) + 1)
    return spec.choices
