"""Training."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import tomllib
import warnings
from typing import Any, Iterable, Iterator, Literal, Sequence, Unpack

from . import _damper, _frames, _peft
from ._callbacks import Callbacks, kind_of
from ._command import use_onnxruntime
from ._data import Samples, samples
from ._damper import Error
from ._called import Call
from ._export import Exported, export, with_trained
from ._inputs import choose_types, input_names, known_facts, read_again
from ._loss import is_own_function, loss_settings
from ._loss_function import call_with, check_function
from ._metadata import METADATA
from ._plain import plain
from ._predict import RECORD
from ._run import Interrupted, Run, upward
from ._settings import Settings
from ._signature import described
from ._texts import LENGTH, tokenized
from ._trained import NotTrained, check_moved, check_reached, inspected, with_adapters

#: Folder of runs without `out`, in the working folder.
RUNS = "damper-runs"
IGNORE = ".gitignore"
IGNORED = "# The folder checkpoint of a run is as secret as the data.\n*\n"
# Arguments with file names, which are resolved here.
PATHS = ("budget", "cache", "events", "tensorboard", "record", "tokenizer")

# Settings of the command that follow from the module.
SET_HERE = ("model", "parameter", "json", "resume")


class PrivacyWarning(UserWarning):
    """Warning of the command."""


@described
def fit(
    module: Any,
    data: Any,
    *,
    loss: Any = None,
    test: Any = None,
    label: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    tokenizer: Any = None,
    text: str | None = None,
    max_length: int = LENGTH,
    callbacks: Iterable[Any] = (),
    exporter: Literal["auto", "torchscript", "dynamo"] = "auto",
    progress: bool = True,
    **given: Unpack[Settings],
) -> Run:
    """Trains a copy of `module` with differential privacy and returns the run. `run.load_into(module)` copies the weights back.

    Parameters
    ----------
    module
        A `torch.nn.Module` in any mode and on any device. Parameters with `requires_grad` are trained. Tied parameters are one
        parameter. Buffers do not change. It is exported in evaluation mode: dropout is off, and BatchNorm is an error (`damper.fix`
        replaces it). A model of the package `peft` with LoRA or IA3 trains its active adapters.
    data
        The training samples, one row of `X` and `y` each. Either `(X, y)` with arrays or tensors `[N, ...]`, and `X` also a tuple
        (inputs by position) or a dict (by name). Or a DataFrame, a `Dataset`, or a `DataLoader`. The data set of a DataLoader is read
        once, in its order. `y` is `[N]` of class indices, `[N, S]` of those of tokens, or values of the output's shape. Epsilon protects
        one row.

        A DataFrame's columns are the features in their order, by name. Bools are 0 or 1. A categorical column becomes a column of 0 or 1
        for each public value: the categories of its type, or `categories={"COLUMN": [...]}`. `scale={"COLUMN": (mean, std)}` has public
        constants. Other data of the run (`test`, `damper.resume`) are matched by name.
    loss
        "softmax-cross-entropy" (the default for integer labels), "mse" (for floats), "l1", "huber", "bce-with-logits", "causal-lm" (the
        labels are the tokens), "ctc", "output" (forward returns the loss `[N]` itself, and `data` is `(X,)`), or PyTorch's
        `nn.CrossEntropyLoss()`, `nn.CTCLoss()`, `nn.MSELoss()`, `nn.L1Loss()`, `nn.HuberLoss()`, `nn.SmoothL1Loss()`,
        `nn.BCEWithLogitsLoss()`, with their class weights, label smoothing and reduction. Or a function of (output, target) that
        returns one number a sample, a tensor `[N]`. It becomes part of the exported graph. A function that mixes samples is an error.
    test
        Held-out samples: a fraction of the training rows, or data as above. By default their metrics are exact and epsilon does not cover
        them. With `test_metrics="private"` they are noisy and covered, and with "none" they are not released.
    label
        The column of the labels if the data are only a DataFrame. `(df, "COLUMN")` is the same. Use a list of columns for outputs of
        several values. Labels that are not numbers need `classes=[...]`, their public names in the model's order, or a Categorical.
    tokenizer, text, max_length
        A tokenizer of `transformers`, for data with texts: `(texts, labels)`, a DataFrame, or a data set with columns, such as a
        `datasets.Dataset`. `text` names its column, and each text has `max_length` tokens, a public number. `damper.tokenized` makes
        the same arrays, for `run.predict` and `run.evaluate`.
    out
        The output folder. The default is the next free folder in `damper-runs`. Its folder `checkpoint` is as secret as the data.
    exporter
        "torchscript", "dynamo", or "auto": the first, and the second if it fails.
    callbacks
        Objects with `on_step`, `on_evaluate` or `on_end`, such as a `damper.Callback`. They get released and public values only. If
        one raises an exception, the run ends after its step, and the exception comes out of `fit`. Charged steps count, and
        `damper.resume` goes on.
    progress
        Shows a bar.
    given
        The flags of `damper train`, with `_` instead of `-`, by group below. Those that are left out or None have defaults, which
        depend on public sizes alone and are printed with their reasons. A private run needs a larger learning rate than a run
        without noise, because gradients have a norm of at most `clip`.

    SETTINGS

    Raises
    ------
    damper.Error
        A setting, the module or the data is invalid. Nothing was released, unless the message states that the run is unfinished.
    damper.NotTrained
        No gradient reaches some parameters, or the run left them unchanged bit for bit. Its `parameters` name them. In the first case
        nothing was released, and its `run` is None.
    damper.Interrupted
        Ctrl-C: the run ended after its current step, and charged steps count.
    """
    settings: dict[str, Any] = dict(given)
    if tokenizer is not None:
        column = label if isinstance(label, str) else None
        data = tokenized(data, tokenizer, text=text, label=column, max_length=max_length)
        if test is not None and not isinstance(test, (int, float)):
            test = tokenized(test, tokenizer, text=text, label=column, max_length=max_length)
        label = None
    heard = Callbacks(callbacks, settings.get("test_metrics"), kind_of(settings))
    made = prepared(module, data, loss, test, label, exporter, settings)
    for note in made.notes:
        warnings.warn(note, PrivacyWarning, stacklevel=2)
    settings |= {"data": "memory:train", "test": "memory:test" if made.test is not None else test, "copy_model": True}
    with _folder(out) as folder, tempfile.TemporaryDirectory() as temporary:
        settings["out"] = str(folder)
        file = pathlib.Path(temporary) / "module.onnx"
        settings["model"] = str(file)
        try:
            made.write_model(file)
            return _train(settings, made.train, made.test, folder, progress, heard)
        except NotTrained:
            raise
        except Error as error:
            # The temporary file no longer exists when the user reads its name.
            raise Error(str(error).replace(str(file), "the exported module")) from None


@dataclasses.dataclass
class Prepared:
    """A module and samples for the command."""

    settings: dict[str, Any]
    train: Samples
    #: Held-out samples, if they are not a fraction of the training rows.
    test: Samples | None
    exported: Exported
    #: Notes for the user.
    notes: list[str]

    def write_model(self, file: pathlib.Path) -> None:
        """Writes the exported module. Fails if a parameter would not be trained."""
        file.write_bytes(self.exported.model)
        adapts = self.settings.get("lora") is not None
        found = inspected(file, self.settings)
        asked = self.settings.get("train") if adapts else self.exported.parameters
        check_reached(found, asked, self.exported.names, adapts)
        if adapts:
            file.write_bytes(with_trained(self.exported.model, with_adapters(found)))


def prepared(module: Any, data: Any, loss: Any, test: Any, label: Any, exporter: str, settings: dict[str, Any]) -> Prepared:
    """Reads the samples, completes the `settings` and exports the module."""
    if isinstance(data, (str, os.PathLike)):
        raise Error("data: give arrays, a Dataset or a DataLoader; files are for the command damper train")
    if settings.get("lora_keep"):
        raise Error("lora_keep: the module that was given has no place for adapters; leave it out: load_into gives it merged weights")
    for name in SET_HERE:
        if settings.get(name) is not None:
            raise Error(f"{name}: damper sets it for the module that was given; leave it out")
    if settings.get("layout") not in (None, "nchw"):
        raise Error("layout: is for files of the command; give arrays with the channels on axis 1, as by np.moveaxis(X, -1, 1)")
    if settings.get("fix"):
        raise Error("fix: the module that was given keeps its layers; train damper.fix(module), which has GroupNorm in place of BatchNorm")
    module = plain(module)
    adapts = settings.get("lora") is not None
    if adapts and _peft.has_adapters(module):
        raise Error("lora: the module has adapters of peft, which are trained without it; leave lora out")
    names = input_names(module)
    wants_labels = not (isinstance(loss, str) and loss.split(":")[0] == "output")
    reading = _frames.of_options(settings, label)
    said: list[str] = []
    reading.note = said.append
    train = samples(data, names, "data", wants_labels, reading, loss)
    held_out = None
    if test is not None and not isinstance(test, (int, float)):
        reading.known = train.columns()
        held_out = samples(test, names, "test", wants_labels, reading, loss)
        if set(held_out.inputs) != set(train.inputs):
            raise Error(f"test: has the inputs {', '.join(held_out.inputs)} where data has {', '.join(train.inputs)}")
        unnamed = [name for name in held_out.tables if name not in train.tables]
        if unnamed:
            said.append(f"test: the columns of data have no names, so those of test are taken by place: {', '.join(held_out.tables[unnamed[0]].columns.names)}")
    choose_types(module, train, held_out, settings.get("normalize") is not None or settings.get("normalize_private") is not None)
    if reading.classes is not None and not _frames.is_table(data) and not any(map(_frames.is_table, data if isinstance(data, (tuple, list)) else [])):
        settings["classes"] = ",".join(map(str, reading.classes))
    has_labels = train.labels is not None
    if loss is None and type(module).__name__.endswith(("ForCausalLM", "LMHeadModel")) and has_labels and train.labels.ndim == 2:
        loss = "causal-lm"
        said.append(f"loss: causal-lm, because a {type(module).__name__} predicts each token from those before it")
    call = Call(train.by_name)
    if is_own_function(loss):
        call = call_with(loss, train, held_out)
    settings.update(loss_settings(f"output:{call.output}" if call.loss is not None else loss, train.labels))
    if reading.label_scale is not None:
        settings["scale"] = "labels={!r},{!r}".format(*reading.label_scale)
    if settings.get("batch_size") is None:
        settings["batch_size"] = train.batch_size
    if settings.get("budget") is not None and settings.get("samples") is None and (count := charged(settings, test, train)) is not None:
        settings["samples"] = count
    _resolve(settings)

    known = known_facts(train, reading)
    if call.loss is not None:
        check_function(call, module, train.inputs, settings)
    exported = export(module, train.inputs, call, exporter, has_labels, whole=adapts, known=known)
    settings["parameter"] = exported.parameters
    if settings.get("output") is None and call.loss is None and len(exported.outputs) > 1 and "logits" in exported.outputs:
        settings["output"] = "logits"
    return Prepared(settings, train, held_out, exported, list(dict.fromkeys([*said, *exported.notes])))


def charged(settings: dict[str, Any], test: Any, train: Samples) -> int | None:
    """Returns the number of samples that a budget file is charged for, or None if the caller must give `samples`. A declared
    number of samples stands for the exact one, and the command draws a fraction that is held out."""
    if settings.get("dataset_size") is not None:
        return int(settings["dataset_size"])
    return None if isinstance(test, (int, float)) else len(next(iter(train.inputs.values())))


def resume(
    path: str | os.PathLike[str], data: Any, test: Any = None, *, workers: int | None = None, callbacks: Iterable[Any] = (), progress: bool = True
) -> Run:
    """Continues the run in `path` that Ctrl-C, a kill or an error stopped, and returns the finished run.

    `data` and `test` must be those of the run, and are compared with them, because samples in memory are not stored on
    the disk. Omit `test` if it was a fraction. With the same program and processor the run ends with the bits of an
    uninterrupted run. `callbacks` are as in `damper.fit`.

    Raises `damper.Error` if there is nothing to resume, or if data or model differ.
    """
    folder = pathlib.Path(path).absolute()
    model = folder / "checkpoint" / "module.onnx"
    if not model.is_file():
        raise Error(f"{folder}: there is nothing to resume that damper.fit has begun; damper train --resume goes on with other runs")
    _, metadata = _damper.read_model(model)
    known = json.loads(metadata[METADATA])
    train = read_again(known, data, "data")
    held_out = None if test is None else read_again(known, test, "test")
    record = folder / RECORD
    metrics = tomllib.loads(record.read_text()).get("test-metrics") if record.is_file() else None
    kind = json.loads((folder / "checkpoint" / "plan.json").read_text())["plan"]["run"]
    return _train({"resume": str(folder), "workers": workers}, train, held_out, folder, progress, Callbacks(callbacks, metrics, kind))


def _train(
    settings: dict[str, Any], train: Samples, test: Samples | None, folder: pathlib.Path, progress: bool, callbacks: Callbacks
) -> Run:
    run = _called(settings, (train.split(), None if test is None else test.split()), folder, progress, callbacks)
    if note := check_moved(run):
        warnings.warn(note, PrivacyWarning, stacklevel=3)
    callbacks.end(run)
    return run


def _called(settings: dict[str, Any], data: tuple[Any, Any], folder: pathlib.Path, progress: bool, callbacks: Callbacks | None = None) -> Run:
    """Calls the command, which trains on the arrays `data`, and returns the finished run."""
    use_onnxruntime()
    bar = _Bar(progress)

    def listener(text: str) -> None:
        bar(text)
        if callbacks is not None:
            callbacks(json.loads(text))

    try:
        of_rows = _OfRows()
        _, interrupted = _damper.call("train", [], {"json": True, **settings}, listener, data, of_rows)
    except BaseException as error:
        if callbacks is not None and callbacks.failed:
            _note_state(error, folder)
        raise
    finally:
        bar.close()
    run = Run(folder)
    run.data_warnings = of_rows.texts
    if interrupted and not run.finished:
        if callbacks is not None:
            callbacks.end(run)
        raise Interrupted(run)
    return run


def _note_state(error: BaseException, folder: pathlib.Path) -> None:
    """Adds the state of the run to the error of a callback."""
    with contextlib.suppress(Error, OSError):
        run = Run(folder)
        rest = f"the run is finished and in {folder}" if run.finished else f"go on with damper.resume({str(folder)!r}, data)"
        cost = "NOT PRIVATE" if run.not_private else f"epsilon {upward(run.epsilon)} is charged"
        error.add_note(f"damper: a callback failed, and the run ended after step {run.steps}: {cost}; {rest}")


def fit_network(settings: dict[str, Any], features: Any, labels: Any, out: str | os.PathLike[str] | None, progress: bool) -> Run:
    """Trains a network by name, `settings["model"]`, on arrays, and returns the run. It keeps no state to resume from."""
    settings = {"data": "memory:train", "no_checkpoint": True, **settings}
    if settings.get("budget") is not None and settings.get("test") is None:
        settings.setdefault("samples", settings.get("dataset_size") or len(features))
    _resolve(settings)
    with _folder(out) as folder:
        return _called({**settings, "out": str(folder)}, (([("x", features)], labels), None), folder, progress)


def _resolve(settings: dict[str, Any]) -> None:
    """Makes the file names of `settings` absolute."""
    for name in PATHS:
        if settings.get(name) is not None:
            settings[name] = os.path.abspath(settings[name])


@contextlib.contextmanager
def _folder(out: str | os.PathLike[str] | None) -> Iterator[pathlib.Path]:
    """Yields the output folder: `out`, or the next free folder of `damper-runs`. That folder is removed again if the
    run produced nothing."""
    if out is not None:
        yield pathlib.Path(out).absolute()
        return
    folder = _next_folder()
    try:
        yield folder
    finally:
        # Not empty, or already used by another thread or process.
        with contextlib.suppress(OSError):
            folder.rmdir()
            _remove_unused(folder.parent)


def _next_folder() -> pathlib.Path:
    """Creates the next free folder of `damper-runs`. Concurrent threads and processes each get their own."""
    runs = pathlib.Path(RUNS).absolute()
    while True:
        runs.mkdir(parents=True, exist_ok=True)
        # If another run has just removed the folder, the loop creates another.
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            taken = [int(one.name) for one in runs.iterdir() if one.name.isdigit()]
            folder = runs / f"{max(taken, default=0) + 1:04d}"
            folder.mkdir()
            _ignore(runs)
            return folder


def _ignore(runs: pathlib.Path) -> None:
    """Keeps the secret `checkpoint` of each run out of the user's repository. A file of the user's own stays."""
    with contextlib.suppress(FileExistsError), (runs / IGNORE).open("x") as file:
        file.write(IGNORED)


def _remove_unused(runs: pathlib.Path) -> None:
    """Removes `damper-runs` if it has no run."""
    ignore = runs / IGNORE
    if [one.name for one in runs.iterdir()] != [IGNORE] or ignore.read_text() != IGNORED:
        return
    ignore.unlink()
    try:
        runs.rmdir()
    except OSError:
        # Another thread or process has begun a run in the meantime.
        _ignore(runs)


class _Bar:
    """Progress bar for events of the command, in a terminal or a notebook. It shows only released figures."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self.bar: Any = None

    def __call__(self, text: str) -> None:
        event = json.loads(text)
        kind = event["event"]
        if kind == "warning":
            warnings.warn(event["text"], PrivacyWarning, stacklevel=4)
        elif self.shown and kind == "default":
            print(f"default: {event['setting']}={event['value']}: {event['reason']}", file=sys.stderr)
        elif self.shown and kind == "step":
            self._step(event)
        elif self.shown and kind == "evaluation" and self.bar is not None:
            parts = [f"epoch {event['epoch']:.1f}: loss {event['loss']:.4f}"]
            parts += [f"accuracy {event['accuracy']:.4f}"] if event["accuracy"] is not None else []
            self.bar.write(", ".join(parts), file=sys.stderr)

    def _step(self, event: dict[str, Any]) -> None:
        if self.bar is None:
            from tqdm.auto import tqdm

            self.bar = tqdm(total=event["steps"], unit="step", desc="damper")
        by = f" by step {event['by_step']}" if event["by_step"] > event["step"] else ""
        epsilon = event["epsilon"]
        self.bar.set_postfix_str("NOT PRIVATE" if epsilon is None else f"epsilon {upward(epsilon)}{by}", refresh=False)
        self.bar.update(event["step"] - self.bar.n)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


class _OfRows:
    """Stores warnings about rows for `Run.data_warnings`, and shows them on an interactive terminal only.

    No stored output contains them. They are not Python warnings, because a filter makes exceptions of these, and
    logging makes lines. A notebook does not show them.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> None:
        self.texts.append(text)
        if _is_interactive():
            print(f"damper: {text}", file=sys.stderr)


def _is_interactive() -> bool:
    """Returns True if standard error is the process's own and a terminal. Job systems provide a terminal for some jobs,
    and store its output."""
    is_job = os.environ.get("CI", "") not in ("", "0", "false")
    return sys.stderr is not None and sys.stderr is sys.__stderr__ and sys.stderr.isatty() and not is_job
