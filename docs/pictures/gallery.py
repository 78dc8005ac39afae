"""Training curves of the gallery's tasks."""

import csv
import io
import math
import statistics

from picture import SMALL, WIDTH, Picture

TASKS = ["digits", "mnist-cnn", "mnist-hog", "cifar-hog", "diamonds", "flchain", "sst2-bag", "sst2-minilm"]


def task_curve(task, figures_of_runs):
    """Test accuracy over the steps of the runs of a task of the gallery, with ε above."""
    rows = [row for row in csv.DictReader(io.StringIO(figures_of_runs)) if row["task"] == task]
    runs = {}
    for row in rows:
        runs.setdefault(row["seed"], []).append((int(row["step"]), float(row["epsilon"]), float(row["accuracy"])))
    ends = [run[-1] for run in runs.values()]
    deviation = f" ± {statistics.stdev(end[2] for end in ends):.1f}" if len(ends) > 1 else ""
    figures = f"{statistics.mean(end[2] for end in ends):.1f}{deviation} %"
    picture = Picture(f"{task}: test accuracy at ε = 3", f"Runs: {len(ends)}. After the last step: {figures} at ε = {max(end[1] for end in ends):.2f}.")
    left, right, top, tall = 58, WIDTH - 24, 62, 130
    steps, guess = ends[0][0], float(rows[0]["majority"])
    values = [accuracy for run in runs.values() for _, _, accuracy in run] + [guess]
    step = next(step for step in (1, 2, 5, 10, 20) if (max(values) - min(values)) / step <= 5)
    low, high = step * math.floor(min(values) / step), step * math.ceil(max(values) / step)
    bottom = top + tall

    def x_of(at):
        return left + (right - left) * at / steps

    def y_of(value):
        return bottom - tall * (value - low) / (high - low)

    picture.text(14, 24, f"{task}: test accuracy, %", size=SMALL, bold=True)
    picture.text(right, 24, figures, "a", SMALL, "end", bold=True)
    for tick in range(low, high + 1, step):
        picture.line([(left, y_of(tick)), (right, y_of(tick))], "grid", width=1)
        picture.text(left - 8, y_of(tick) + 4, str(tick), "soft", SMALL, "end")
    first = next(iter(runs.values()))
    for at in sorted({round((len(first) - 1) * part / 4) for part in range(5)}):
        number_of, epsilon, _ = first[at]
        picture.line([(x_of(number_of), top - 6), (x_of(number_of), top)], "edge", width=1)
        picture.text(x_of(number_of), top - 10, f"{epsilon:.2f}", "soft", SMALL, "middle")
        picture.text(x_of(number_of), bottom + 18, str(number_of), "soft", SMALL, "middle")
    picture.text(14, top - 10, "ε", "soft", SMALL)
    picture.text(14, bottom + 18, "steps", "soft", SMALL)
    picture.line([(left, y_of(guess)), (right, y_of(guess))], "bline", dashes="5 4", width=1.2)
    for run in runs.values():
        picture.line([(x_of(at), y_of(accuracy)) for at, _, accuracy in run], "aline", width=1.4)
        picture.mark(x_of(run[-1][0]), y_of(run[-1][2]), "a", 3.5)
    picture.text(left, bottom + 38, f"dashed: always the most frequent class, {guess:.1f} %", "soft", SMALL)
    picture.description += f" The most frequent class alone has {guess:.1f} %."
    return picture
