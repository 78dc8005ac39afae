"""Settings of `damper.fit`, by group. `host/python/settings` writes this file from the settings of `damper train`."""

from __future__ import annotations

import os
from typing import Any, Literal, Mapping, Sequence, TypedDict

#: A number, or text in the form of the flag.
Value = float | str


class Settings(TypedDict, total=False):
    """Settings of a run. Those that are left out, or None, have the defaults of `damper train`."""

    # Privacy.
    epsilon: float | None
    """The budget: the noise is chosen so that epsilon of the whole run is at most this."""
    noise_multiplier: float | None
    """Standard deviation of the noise in units of the clip, instead of `epsilon`."""
    not_private: bool | None
    """Trains the same without privacy, as a baseline: no clipping, no noise, no epsilon, and every output is marked. The draws are
    Poisson and the optimizer is the same. The best learning rate is usually different."""
    delta: float | None
    """Delta, well below 1 / number of samples [default: a power of ten by that number, 1e-5 at most]."""
    accountant: Value | Sequence[Value] | None
    """Accountant: tight by privacy loss distributions (`pld`), or Rényi divergences (`rdp`) [default: pld]."""
    allow_large_delta: bool | None
    """Lets through a delta of 1 / number of samples and more."""
    clip: float | None
    """Largest Euclidean norm of one sample's gradient, over all trained parameters. If the method adapts it, the first value
    [default: 1. Without `lr`, 0.1 for integer inputs and for `optimizer` sgd]."""
    dataset_size: int | None
    """Declared number of samples instead of the counted number, which then stays out of every output. The sampling rate becomes
    batch size / N0, and the batch size is a divisor, not the expected number of samples."""
    sampler: Literal["poisson", "shuffled", "cyclic-poisson", "min-separation"] | None
    """Sampling of a step: `poisson`, each sample independently. `shuffled`, batches of a fixed size: sampling gains nothing, and an
    epoch is accounted as one event at a rate of 1. `min-separation`, the same batches each epoch. `cyclic-poisson`, independently
    from one of `groups` groups in turn, so that a group's samples come at every G-th step [default: poisson]."""
    groups: int | None
    """Groups of `sampler` cyclic-poisson [default with `noise_correlation` banded:B: B]."""
    noise_correlation: Value | Sequence[Value] | None
    """Noise of successive steps that partly cancels in their sum: `lambda:P/Q`, one step back. `blt:D`, D buffers for each
    parameter. Both with `sampler` min-separation. `banded:B`, B bands, with it or with cyclic-poisson. The run is accounted as a
    whole [default: none]."""
    noise_objective: Value | Sequence[Value] | None
    """Objective of `noise_correlation` blt and banded: the noise of the sum over all steps (`max`), or of the sums up to each step
    (`mean`) [default: mean]."""
    truncate: int | None
    """Truncates Poisson draws of more than M samples to M, and takes the cost out of delta. Memory does not need it: a draw of any
    size is split over physical batches."""
    noise: Literal["discrete", "continuous"] | None
    """`discrete`: integers on a grid, exact. `continuous`: floats, not exact, for comparison [default: discrete]."""
    readout: Value | Sequence[Value] | None
    """Clipping of gradients. `per-sample`: each sample's gradient, by damper. `clipped-sum`: a chunk's, by the backend in its
    floats, not exact and with `noise` continuous only, for large models [default: per-sample]."""
    grid_bits: int | None
    """The clip is 2^BITS grid units [default: 20]."""
    budget: str | os.PathLike[str] | None
    """Charges the whole plan against the budget of a data set, a file that `damper budget` makes, before data is read. A run that
    would exceed the limit is refused."""
    samples: int | None
    """With `budget`: number of training samples, which determines the plan before data is read. Must be that of the data."""
    seed: int | None
    """Makes the run a simulation that can be repeated: its noise is known, so nothing of it is private."""
    # Training.
    batch_size: int | None
    """Constant divisor of the noisy sum. Without `dataset_size` also the expected number of samples in a draw [default: 8 times the
    root of the number of samples]."""
    epochs: float | None
    """Passes over the data: there are epochs * samples / batch size steps [default: 40, fewer above 25,000 samples]."""
    augment: Value | Sequence[Value] | None
    """Takes the mean gradient over K random views of each picture and clips that. Views: cropPIXELS shifts a picture and mirrors
    the missing part, shiftPIXELS repeats the edge, flip mirrors half of the views. Costs K times the computing, and no privacy."""
    cache_frozen: Value | Sequence[Value] | None
    """Computes the layers before the first trained weight once for all samples, and keeps up to SIZE of their values in memory,
    such as 4GiB. Each step then runs only the other layers. The values are as secret as the data."""
    average: Value | Sequence[Value] | None
    """Evaluates and writes a mean of the parameters after each step instead of the last parameters, at no privacy cost. START: over
    the steps after the first START of all, from 0 to below 1. With `,lr` each step weighs as much as its learning rate. ema:DECAY:
    an exponential moving average, as ema:0.99. poly:POWER: weights that grow with the power of the step, as poly:8."""
    eval_every: float | None
    """Evaluates on the held-out samples every EPOCHS epochs, and at the end."""
    stop_early: int | None
    """Ends the run after N evaluations in a row that do not improve on the best before. Needs `eval_every`. Epsilon stays that of
    all planned steps."""
    # Optimizer.
    optimizer: str | None
    """The optimizer. `momentum` is sgd with momentum 0.9, `nesterov` the same in Nesterov's form [default: sgd, or adam if `lr` is
    not given either]."""
    lr: float | None
    """Learning rate [default: by the numbers of steps and parameters, and for sgd by epsilon]."""
    lr_schedule: Value | Sequence[Value] | None
    """Change of the learning rate over time: constant, step:EPOCHS,FACTOR, cosine or cosine:FLOOR. Or polynomial:A,C, which is
    1/sqrt(A + C t). Or root-linear or root-linear:FLOOR, which are linear in sqrt(t) [default: adp: polynomial:20,1, others:
    constant]."""
    warmup: float | None
    """Epochs over which it rises to its value [default: 0]."""
    momentum: float | None
    """sgd, momentum, nesterov: the share of the last step that is kept, from 0 to below 1 [default: sgd 0, others 0.9]."""
    nesterov: bool | None
    """sgd, momentum: Nesterov's form."""
    weight_decay: float | None
    """adamw, adam-bc: decoupled decay, others: L2 penalty, adam does not have it [default: 0, adamw 0.01]."""
    betas: Sequence[float] | str | None
    """adam, adamw, adam-bc: decay of the first and second moment [default: 0.9,0.999, with doppler 0,0.999, as its filter is the
    first moment]."""
    adam_epsilon: float | None
    """adam, adamw, adagrad, rmsprop: term added to the root of the second moment. With `adam-bc`, lower bound on the second moment
    after the noise's share is subtracted [default: 1e-8, adagrad 1e-10, adam-bc by the noise]."""
    alpha: float | None
    """rmsprop: decay of the second moment [default: 0.99]."""
    adam_denominator: Literal["added", "floored"] | None
    """adam, adamw: use of epsilon to keep the denominator above 0: `added` to the root of the second moment, or `floored`, the
    larger of both (DOPPLER) [default: added]."""
    adagrad_norm: Value | Sequence[Value] | None
    """Divides the learning rate by the root of B0 plus the squared norms of the gradients released so far, each at least NU."""
    subtract_noise: bool | None
    """`adagrad_norm`: takes the noise's own share off each squared norm."""
    norm_weight: Value | Sequence[Value] | None
    """`adagrad_norm`: the first of every STEPS steps counts BETA times, the second BETA / 2 times, down to once (ADP)."""
    galore: Value | Sequence[Value] | None
    """GaLore: tensors with more than RANK rows and more than RANK columns (all axes but the first) follow the optimizer in RANK
    directions only. The directions are computed every EVERY steps from the released gradient. SCALE multiplies their step [default:
    EVERY 200, SCALE 1]."""
    # Method.
    method: str | None
    """The private method. The flags below change parts of it [default: dp-sgd]."""
    filter: str | None
    """Filter of released gradients: none, a name from `damper filter `list`, or coefficients A1,A2;B0,B1 [default: doppler, dp-
    pmlf: momentum, others: none]."""
    adaptive_fir: Value | Sequence[Value] | None
    """doppler: instead of `filter`, a filter over LAGS past gradients with taps that follow their autocorrelation. MEMORY is the
    decay of its averages from step to step, FLOOR the least squared norm [default: MEMORY 0.9, FLOOR 1e-3]."""
    no_bias_correction: bool | None
    """doppler, dp-pmlf, `filter`: the filter's output as it is, not over its step response."""
    iterates: int | None
    """dp-pmlf, inner-outer: number of iterates that are combined per sample, including the current iterate, 1 to 16 [default:
    2]."""
    beta: float | None
    """dp-pmlf, inner-outer: factor of the combination, -0.9 to 1 [default: dp-pmlf 0.1, inner-outer 0.9]."""
    kappa: float | None
    """disk: the filter's gain, 0.001 to 1 (1: no filter) [default: 0.7]."""
    gain_recursion: Sequence[float] | str | None
    """disk: the gain follows the scalar recursion with these variances: of the noise, of the difference, of the gradient."""
    gamma: Value | None
    """disk: `one` evaluates one gradient per sample, at the point (1-K)/K steps ahead. A number evaluates two, with the second
    gradient this many steps ahead [default: one]."""
    clip_rule: str | None
    """Clipping threshold of each step. All rules except `fixed` learn it from released counts [default: by the method]."""
    percentile: float | None
    """percentile, quantile: share of gradients to leave unclipped [default: 0.5]."""
    count_noise_multiplier: float | None
    """percentile, expected-error, quantile: standard deviation of the noise on each released count. A sample changes a count by 1.
    [default: 5, or 8 if sigma is at least 2, or 12 if it is above 3. With quantile, batch size / 10, twice the paper's sigma_b]."""
    histogram_range: float | None
    """percentile, expected-error: range of the first histogram of norms [default: percentile 1, expected-error 20]."""
    clip_bounds: Sequence[float] | str | None
    """Bounds of a learned clipping threshold [default: 1e-8,1e8]."""
    solver: Literal["paper-grid", "exact"] | None
    """expected-error: `paper-grid` searches multiples of the last clip, `exact` solves [default: paper-grid]."""
    clip_lr: float | None
    """quantile: learning rate of the clip [default: 0.2]."""
    count_non_finite: bool | None
    """percentile, expected-error: counts a sample whose gradient is not finite in the histogram's last bin, not nowhere."""
    clipping: str | None
    """Bound on one sample. `flat`: all parameters together to the clip at most. `per-layer`: each tensor on its own. `automatic`:
    normalised to the clip (AUTO-S) [default: flat]."""
    auto_clip_gamma: float | None
    """automatic clipping: the constant that keeps small gradients small [default: 0.01]."""
    noise_schedule: Value | Sequence[Value] | None
    """Noise of each step: constant, or matched:P, growing as the learning rate falls, to the power P from 0 to 4. Or
    polynomial:G,P, which is (1 + G t)^(P/2). Or clt, the least noise by the central limit theorem. [default: adp: matched:0.5,
    others: constant]."""
    # Model.
    output: str | None
    """The model output that feeds the loss, if there are several."""
    class_axis: int | None
    """The axis of that output that holds the classes, counted with the batch [default: the last]."""
    reduction: Value | Sequence[Value] | None
    """Reduction of a sample's loss over its tokens or elements: the mean over those that count, or the sum [default: mean]."""
    class_weights: Value | Sequence[Value] | None
    """Public factor on the loss of each class. With bce-with-logits, of the labels 0 and 1."""
    label_smoothing: float | None
    """softmax-cross-entropy: takes a share A of each label and divides it among all classes."""
    focal_gamma: float | None
    """Focal loss: multiplies the loss of a label with the probability p by (1 - p)^G. 2 is usual, 1 the least."""
    only: str | Sequence[str] | None
    """Trains exactly the initializers that match, and no others (`*` and `?`, may be repeated)."""
    train: str | Sequence[str] | None
    """Trains the initializers that match, even if the rule excludes them (`*` and `?`, may be repeated)."""
    freeze: str | Sequence[str] | None
    """Does not train the initializers that match. Overrides `train`, so take `only` to train a part (may be repeated)."""
    lora: int | None
    """LoRA: trains adapters of RANK columns on the linear weights of `lora_target`, which stay frozen, and of the rest those that
    `train` names. They are drawn from `init_seed`, and merged into the weights at the end."""
    lora_target: str | Sequence[str] | None
    """The weights that get an adapter: initializers that MatMul or Gemm multiply by (`*` and `?`, may be repeated)."""
    lora_alpha: float | None
    """The adapters' product is multiplied by A / RANK [default: RANK, so by 1]."""
    tie: str | Sequence[str] | None
    """Treats the initializers that match as one weight for all their uses (may be repeated)."""
    untie: str | Sequence[str] | None
    """Treats the initializers that match as a separate weight for each use. Overrides `tie` (may be repeated)."""
    shape: str | Sequence[str] | None
    """Size of a dynamic axis other than the batch, by its name, or as INPUT[AXIS]=N (may be repeated)."""
    input: str | Sequence[str] | None
    """The public value of an input that samples do not give: a number for all of it, true, false, or all its numbers separated by
    commas (may be repeated)."""
    checkpoint_activations: bool | None
    """Computes most activations again in the backward pass instead of keeping them. For long networks this takes less memory, and
    up to one more forward pass. The bits are the same, except on tract."""
    init_seed: int | None
    """Public seed of the weights that the model file omits [default: 0]."""
    # Data.
    split_seed: int | None
    """With `test` FRACTION: the public number that selects the held-out rows. The choice depends only on this number and on
    positions in the file [default: 0]."""
    stratify: Literal["public-classes"] | None
    """With `test` FRACTION: holds out the same fraction of each class. Sound only if the class of every row is public: epsilon then
    protects the rest of a row."""
    normalize: Value | Sequence[Value] | None
    """Public mean and standard deviation: every feature becomes (x - MEAN) / STD. Bytes are divided by 255 first. For values of
    each channel or column: MEAN,MEAN,..:STD,STD,.."""
    on_bad_row: Value | Sequence[Value] | None
    """Action for a row that has a NaN, an infinity or a label out of range: `drop` makes it contribute nothing. An error if more
    than 1 % of the rows are such [default: error]."""
    train_size: int | None
    """Uses the first N training samples only."""
    classes: Sequence[Any] | int | str | None
    """Names of the classes in the model's order, separated by commas, or a file with a name on each line. A number K is for labels
    from 0 to K - 1. In csv, parquet and text the labels are names, and in images the folders. For other kinds the labels are
    numbers. Names are public. [default: those in the model, else labels are numbers. For images the training folders in the order
    of their names]."""
    categories: Mapping[str, Sequence[Any]] | Sequence[str] | None
    """csv, parquet: a column of categories with all its values, which are public. Each value becomes a number, 0 or 1, or its
    position for integer inputs. Can be given for several columns."""
    scale: Mapping[str, tuple[float, float]] | Sequence[str] | None
    """csv, parquet: a column and public constants: its numbers become (x - MEAN) / STD. Can be given for several columns. With
    `loss` mse also the label's column, which npz and npy call `labels`: losses and predictions stay in the label's unit."""
    data_memory: Value | Sequence[Value] | None
    """Samples of each input that are held in memory. More are stored in an unnamed file and read for each step [default:
    256MiB]."""
    cache: str | os.PathLike[str] | None
    """Folder of that file, which is as secret as the data and is removed when the command ends [default: the system's for temporary
    files]."""
    test_metrics: Literal["exact", "private", "none"] | None
    """Release of figures on the held-out samples. `exact`: accuracy and loss, exact functions of samples that epsilon does not
    protect. `private`: both with noise, charged so that epsilon protects these samples too. `none`: nothing [default: exact]."""
    test_loss_bound: float | None
    """With `test_metrics` private: a sample's loss counts as L at most, above and below zero [default: 10]."""
    normalize_private: Value | Sequence[Value] | None
    """Public bounds of the features. Their means and standard deviations over the training samples are released with noise before
    the first step, accounted with the run, and every feature becomes (x - MEAN) / STD. A pair for all columns, or for each column
    as LOW,LOW,..:HIGH,HIGH,.. A value outside counts as the nearest bound."""
    normalize_noise_multiplier: float | None
    """Noise of that release, over the largest norm that a sample adds [default: four times that of one release at the run's
    epsilon]."""
    release_non_finite: bool | None
    """Releases the number of training samples without a finite gradient, which add nothing: once, with noise, before the first
    step, accounted with the run. The report has the number."""
    non_finite_noise_multiplier: float | None
    """Noise of that number, in samples [default: sixteen times that of one release at the run's epsilon]."""
    # Run.
    checkpoint_every: Value | Sequence[Value] | None
    """Seconds between two writes of the state for `resume`, into the private folder DIR/checkpoint. 0: after each step [default:
    60]."""
    no_checkpoint: bool | None
    """Keeps no state for `resume`, and so no key on the disk: a run that stops cannot be resumed."""
    # Machine.
    backend: Value | Sequence[Value] | None
    """Backend of the networks: auto (onnxruntime if it is found, else tract. A build without both: portable), tract, portable (the
    same bits on every machine), ort, cuda [default: auto]."""
    operators: Value | Sequence[Value] | None
    """Operators of the gradient graph, with onnxruntime: own (damper's kernels) or standard (ONNX alone, with parameters and sums
    kept on the device). With standard, the processor runs what cuda runs [default: own, with cuda standard]."""
    physical_batch: int | None
    """Rows of a physical batch. A draw takes as many batches as it needs [default: as many as `memory` holds, up to 16]."""
    memory: Value | Sequence[Value] | None
    """Memory limit for the tensors of one worker, such as 512MiB. `damper inspect` shows their size [default: 2GiB]."""
    workers: int | None
    """Threads, each with its own session. Single gradients, and runs with discrete noise, do not depend on it [default:
    processors]."""
    # Progress.
    events: str | os.PathLike[str] | None
    """Appends a line of JSON to FILE for each event: steps with epsilon so far, evaluations, warnings, states, the end (see
    docs/events.md). The file events.json in the output folder is something else: the events that determine epsilon."""
    tensorboard: str | os.PathLike[str] | None
    """Writes held-out accuracy and loss, and epsilon so far, for TensorBoard."""
    # Recording.
    record: str | os.PathLike[str] | None
    """Records the run in FILE, which must not be there, to be replayed anywhere by `damper replay`. As secret as the data: it holds
    the gradient of every sample drawn and the key of the noise. Only its owner can read it. Until it is complete it has another
    name in the same folder, .damper-FILE.part, from which a resumed run continues."""
    record_limit: Value | Sequence[Value] | None
    """Refuses a recording that is expected to be larger [default: 1GiB]."""
