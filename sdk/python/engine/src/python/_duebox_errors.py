"""The text of an exception: its message, and the lines of the handler's own files.

Invariant: whatever an exception's methods do, there is a text.
"""

SOURCES = {}
"""The lines of each file of the handler."""

_CAUSES_MAX = 4
_LINE_MAX = 160
_FRAMES_MAX = 20

_INSTEAD = {
    "aiohttp": "use http of duebox",
    "ctypes": "a handler has no C libraries",
    "fcntl": "a handler has no files",
    "httpx": "use http of duebox",
    "multiprocessing": "a handler runs on one thread",
    "psycopg2": "it has compiled parts, and a handler has no sockets",
    "redis": "use kv of duebox",
    "requests": "use http of duebox, which looks like requests",
    "sqlite3": "use kv of duebox",
    "ssl": "use http of duebox, which knows TLS",
    "urllib3": "use http of duebox",
}


def describe(error, causes=_CAUSES_MAX):
    try:
        return _describe(error, causes)
    except RecursionError:
        return "RecursionError: maximum recursion depth exceeded"
    except Exception:
        return "the handler raised an exception that cannot be shown"


def _describe(error, causes):
    name = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename in SOURCES:
        text = _syntax(error, name)
    else:
        text = f"{name}: {_message(error)}".removesuffix(": ")
        text = "\n".join([text, *_frames(error.__traceback__)])
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
    if cause is not None and causes > 0:
        text += f"\ncaused by {describe(cause, causes - 1)}"
    return text


def _message(error):
    message = str(error)
    if isinstance(error, ModuleNotFoundError) and isinstance(error.name, str):
        name = error.name.partition(".")[0]
        advice = _INSTEAD.get(name)
        if advice is None:
            advice = (
                f"there is neither {name}.py beside the handler nor {name} in vendor/; "
                f"`pip install --target vendor {name}` puts it there if it is pure Python"
            )
        message += f"; {advice}"
    return message


def _shown(file, line, column):
    """A source line, with a mark below the column."""
    lines = SOURCES.get(file, ())
    if not 0 < line <= len(lines):
        return []
    text, margin = lines[line - 1][:_LINE_MAX], " " * len(str(line))
    shown = [f"{line} | {text}"]
    if column is not None:
        before = "".join("\t" if letter == "\t" else " " for letter in text[: column - 1])
        shown.append(f"{margin} | {before}^")
    return shown


def _syntax(error, name):
    line, column = error.lineno or 1, error.offset or 1
    place = f"{error.filename}:{line}:{column}"
    return "\n".join([f"{place}: {name}: {error.msg}", *_shown(error.filename, line, column)])


def _frames(traceback):
    """The frames of the handler's own files, the innermost last, with the source line of that one."""
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_filename in SOURCES:
            frames.append((code.co_filename, traceback.tb_lineno, _column(code, traceback.tb_lasti), code.co_name))
        traceback = traceback.tb_next
    if len(frames) > _FRAMES_MAX:
        frames = frames[: _FRAMES_MAX // 2] + frames[-_FRAMES_MAX // 2 :]
    shown = []
    for file, line, column, name in frames:
        place = f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
        shown.append(f"  at {place} in {name}")
    if frames:
        file, line, column, _ = frames[-1]
        shown.extend(_shown(file, line, column))
    return shown


def _column(code, instruction):
    """The column of an instruction, from 1; None if it is unknown."""
    for index, position in enumerate(code.co_positions()):
        if index == instruction // 2:
            column = position[2]
            return None if column is None else column + 1
    return None
