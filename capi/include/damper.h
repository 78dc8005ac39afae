/* damper for C: differentially private training on a device, in memory that the caller owns. No heap, no globals.
 *
 * Written by cbindgen from the crate damper-capi; do not edit. The README.md of that crate has a complete program. The header
 * is C89 and C++98. It also needs <stdint.h>, which compilers have in their C89 mode too.
 *
 * The contract of every function
 *
 * Pointers: a pointer is null or points to memory of the stated length. No other code reads or writes that memory during the
 * call. All memory that a function reads is initialised: the target of a pointer to const, and the parameters that a step
 * updates. Memory for a run, a shard or a result may be uninitialised: the library writes it before it reads it. A pointer that
 * must not be null, is misaligned, or points into the run's memory gives an error status.
 *
 * Handles: a pointer to a damper_run is one that damper_run_init wrote. Until damper_run_close the run's memory belongs to the
 * library: do not move, copy, read, write or free it. After that it is zeros, and functions return
 * DAMPER_STATUS_NOT_A_RUN for the handle until you use the memory for something else. Do not pass a pointer to memory in which
 * no run was created. The library reads a mark at a handle, and the mark holds its address. So it also rejects a run that was
 * moved or copied. The same holds for a damper_shard, from damper_shard_open to damper_shard_merge or damper_shard_close.
 *
 * Const: a function with a pointer to a const damper_run changes only the text of damper_last_error in the run.
 *
 * Threads: runs share nothing. Two threads, or an interrupt and the interrupted code, must not use one run at the same time.
 *
 * Sizes: a struct that begins with `size` holds its size in the header that the program was compiled with. DAMPER_CONFIG_INIT,
 * DAMPER_SCHEDULE_INIT, DAMPER_FLASH_INIT and DAMPER_JOURNAL_RUN_INIT set it. Later versions only append fields, accept the
 * structs of earlier versions, and read a missing field as 0. An unknown size gives DAMPER_STATUS_SIZE.
 */


#ifndef DAMPER_H
#define DAMPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The version of this header as one number, which grows with each release. `damper_version` gives the library's: header and
 * library fit if both are equal.
 */
#define DAMPER_VERSION (DAMPER_VERSION_MAJOR * 1000000L + DAMPER_VERSION_MINOR * 1000L + DAMPER_VERSION_PATCH)

/**
 * Lets the compiler warn if a status is not used. Empty for other compilers, or if you define it as empty.
 */
#ifndef DAMPER_MUST_USE
#if defined(__GNUC__)
#define DAMPER_MUST_USE __attribute__((__warn_unused_result__))
#else
#define DAMPER_MUST_USE
#endif
#endif

/**
 * Bytes of static memory for a run, aligned to 8, that suffice on every target. `damper_run_size` is exact.
 */
#define DAMPER_RUN_BYTES(dim, vectors, layers) \
  (64 * sizeof(void *) + 880 + 4 * (size_t)(dim) * (1 + (size_t)(vectors)) + 2 * sizeof(size_t) * (size_t)(layers))

/**
 * Bytes of static memory for a shard, aligned to 8, that suffice on every target. `damper_shard_size` is exact.
 */
#define DAMPER_SHARD_BYTES(dim) (16 * sizeof(void *) + 128 + 4 * (size_t)(dim))

/**
 * Bytes of static memory for a journal, aligned to 8, that suffice on every target. `damper_journal_size` is exact.
 */
#define DAMPER_JOURNAL_BYTES (9 * sizeof(void *) + 64)

/**
 * A sampling rate of 1.
 */
#define DAMPER_SAMPLING_RATE_ONE ((uint64_t)1 << 53)

/**
 * Initialises a `damper_config`: its size, and 0 for the rest. A value of 0 is rejected until you set it.
 */
#define DAMPER_CONFIG_INIT {sizeof(damper_config), 0, 0, 0.0, 0.0, 0.0f, 0, 0, 0}

/**
 * Initialises a `damper_schedule`: its size, and 0 for the rest, which changes nothing.
 */
#define DAMPER_SCHEDULE_INIT {sizeof(damper_schedule), 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0}

/**
 * Initialises a `damper_flash`: only its size. The rest is rejected until you set it.
 */
#define DAMPER_FLASH_INIT {sizeof(damper_flash), NULL, 0, 0, 0, NULL, NULL, NULL}

/**
 * Initialises a `damper_journal_run`: only its size.
 */
#define DAMPER_JOURNAL_RUN_INIT {sizeof(damper_journal_run), NULL, 0, 0.0, 0.0, NULL, 0}


/**
 * Major version of this header. A new number breaks programs.
 */
#define DAMPER_VERSION_MAJOR 0

/**
 * Minor version. A new number adds functions or fields, and breaks programs while the major version is 0.
 */
#define DAMPER_VERSION_MINOR 1

/**
 * Patch version. A new number changes no function.
 */
#define DAMPER_VERSION_PATCH 0

/**
 * Largest order of a recursive filter.
 */
#define DAMPER_MAX_ORDER 8

/**
 * Largest number of iterates of per-sample momentum.
 */
#define DAMPER_MAX_ITERATES 8

/**
 * Bins of a histogram of norms, as in the paper of DC-SGD.
 */
#define DAMPER_BINS 20

/**
 * Confirms to `damper_journal_provision` that nothing was ever charged to this run.
 */
#define DAMPER_FIRST_BOOT 1178742833

/**
 * Largest number of segments of a gradient in one call.
 */
#define DAMPER_MAX_SEGMENTS 32

/**
 * Bytes that a run needs in addition to `damper_run_size` or `DAMPER_RUN_BYTES` if a Renyi filter is charged.
 */
#define DAMPER_RENYI_FILTER_BYTES 40

/**
 * Result of a call. Values below 16 are success. Any other call failed as a whole: nothing was added, released or
 * changed, unless the sentence of the status states it. Numbers are stable.
 */
typedef int32_t damper_status;
enum {
  /**
   * Success.
   */
  DAMPER_STATUS_OK = 0,
  /**
   * No more items: no further sample in the draw, no further evaluation point of the sample.
   */
  DAMPER_STATUS_END = 1,
  /**
   * A pointer is null.
   */
  DAMPER_STATUS_NULL = 16,
  /**
   * A pointer is not aligned for its type.
   */
  DAMPER_STATUS_MISALIGNED = 17,
  /**
   * The memory of the run is too small for the run and its slots.
   */
  DAMPER_STATUS_TOO_SMALL = 18,
  /**
   * A length differs from the required length.
   */
  DAMPER_STATUS_LENGTH = 19,
  /**
   * A buffer overlaps the run's memory or another buffer of the call.
   */
  DAMPER_STATUS_OVERLAP = 20,
  /**
   * This address holds no run: it was closed, moved or copied.
   */
  DAMPER_STATUS_NOT_A_RUN = 21,
  /**
   * The run is already in a call: the callback called it.
   */
  DAMPER_STATUS_BUSY = 22,
  /**
   * The call is out of order: see the function.
   */
  DAMPER_STATUS_ORDER = 23,
  /**
   * A number is out of its range: `damper_last_error` names it and its range.
   */
  DAMPER_STATUS_RANGE = 24,
  /**
   * The run has no key, or its generator failed.
   */
  DAMPER_STATUS_NO_KEY = 25,
  /**
   * The run has no store for its ledger.
   */
  DAMPER_STATUS_NO_STORE = 26,
  /**
   * The privacy budget is used up: stop.
   */
  DAMPER_STATUS_BUDGET_SPENT = 27,
  /**
   * The ledger could not be persisted. Nothing is released, and the step is lost.
   */
  DAMPER_STATUS_NOT_PERSISTED = 28,
  /**
   * The record belongs to another budget.
   */
  DAMPER_STATUS_RECORD = 29,
  /**
   * This address holds no shard: it was merged, closed, moved or copied.
   */
  DAMPER_STATUS_NOT_A_SHARD = 30,
  /**
   * The bytes differ from those that were saved.
   */
  DAMPER_STATUS_DAMAGED = 31,
  /**
   * The saved state belongs to another configuration.
   */
  DAMPER_STATUS_CONFIGURATION = 32,
  /**
   * The `size` of a struct is unknown to this library: header and library are of different versions.
   */
  DAMPER_STATUS_SIZE = 33,
  /**
   * The processor does not compute by IEEE 754: see `damper_self_test`.
   */
  DAMPER_STATUS_ARITHMETIC = 34,
  /**
   * This address holds no journal: it was closed, moved or copied.
   */
  DAMPER_STATUS_NOT_A_JOURNAL = 35,
  /**
   * The flash driver failed.
   */
  DAMPER_STATUS_FLASH = 36,
  /**
   * The sizes of a region of flash do not fit: see `damper_flash`.
   */
  DAMPER_STATUS_GEOMETRY = 37,
  /**
   * The flash has no journal: the device was not provisioned, or its flash was erased. Nothing may be released.
   */
  DAMPER_STATUS_BLANK = 38,
  /**
   * A region to be provisioned is not erased.
   */
  DAMPER_STATUS_OCCUPIED = 39,
  /**
   * The flash does not store what is written.
   */
  DAMPER_STATUS_WORN = 40,
  /**
   * The key repeats one word, or the generator's words repeat or are 0: see `damper_set_fresh_key`.
   */
  DAMPER_STATUS_DEAD_GENERATOR = 41
};

/**
 * Decay of the learning rate.
 */
typedef uint32_t damper_lr_decay;
enum {
  /**
   * Constant.
   */
  DAMPER_LR_DECAY_NONE = 0,
  /**
   * Multiplied by `factor` every `steps` steps.
   */
  DAMPER_LR_DECAY_STEP = 1,
  /**
   * Half a cosine over `steps`, down to `factor` times the start.
   */
  DAMPER_LR_DECAY_COSINE = 2,
  /**
   * `1/√(offset + slope·t)`.
   */
  DAMPER_LR_DECAY_POLYNOMIAL = 3,
  /**
   * `1 − (1 − factor)·√(t/steps)`.
   */
  DAMPER_LR_DECAY_ROOT_LINEAR = 4
};

/**
 * Schedule of the noise.
 */
typedef uint32_t damper_noise_schedule;
enum {
  /**
   * Constant.
   */
  DAMPER_NOISE_SCHEDULE_NONE = 0,
  /**
   * `(η_0/η_t)^exponent`: follows the decay of the learning rate (ADP).
   */
  DAMPER_NOISE_SCHEDULE_MATCHED = 1,
  /**
   * `(1 + growth·t)^(exponent/2)`.
   */
  DAMPER_NOISE_SCHEDULE_POLYNOMIAL = 2
};

/**
 * A journal. Opaque, in the caller's memory. Do not move, copy, read or write it until it is closed.
 */
typedef struct damper_journal damper_journal;

/**
 * A run. Opaque, in the caller's memory. Do not move, copy, read or write it until it is closed.
 */
typedef struct damper_run damper_run;

/**
 * A worker's share of a step. Opaque, in the caller's memory. Do not move, copy, read or write it until it is merged
 * or closed. It holds a sum of private gradients.
 */
typedef struct damper_shard damper_shard;

/**
 * A sink for a gradient in segments. Only the producer that received it may use it, until the producer returns.
 */
typedef struct damper_sink damper_sink;

/**
 * Configuration that every run needs: DP-SGD with flat clipping, no momentum and a constant learning rate.
 */
typedef struct {
  /**
   * Bytes of this struct: `DAMPER_CONFIG_INIT` sets it.
   */
  size_t size;
  /**
   * The grid: the clip is `2^grid_bits` units, with 8 to 22 bits. Choose `2^grid_bits` far above the square root of
   * the number of parameters. 16 suits most networks.
   */
  uint32_t grid_bits;
  /**
   * Divisor of the sum of gradients: the expected number of samples in a draw, from 1 to 2^24.
   */
  uint32_t expected_batch;
  /**
   * Standard deviation of the noise divided by the clip, above 0. It is rounded up to the grid: see
   * `damper_multiplier`.
   */
  double noise_multiplier;
  /**
   * Learning rate.
   */
  double learning_rate;
  /**
   * Upper bound on the Euclidean norm of a sample's gradient in the sum.
   */
  float clip;
  /**
   * Steps that may be released in total, at most 2^31. 0 if a Renyi filter is charged.
   */
  uint32_t budget;
  /**
   * Number of samples that each step draws from, by `damper_batch_begin`. 0 if the program draws itself.
   */
  uint32_t samples;
  /**
   * Probability of each sample, in units of 2^-53, at most `DAMPER_SAMPLING_RATE_ONE`. Use the same rate for
   * accounting.
   */
  uint64_t sampling_rate;
} damper_config;

/**
 * Text of the last `DAMPER_STATUS_RANGE`: the number, and its permitted values. The texts are not zero-terminated:
 * print them with `%.*s`. They stay valid forever. They are empty before the first such status.
 */
typedef struct {
  /**
   * Name of the number.
   */
  const char *parameter;
  /**
   * Length of `parameter`, in bytes.
   */
  size_t parameter_len;
  /**
   * Permitted values.
   */
  const char *must_be;
  /**
   * Length of `must_be`, in bytes.
   */
  size_t must_be_len;
} damper_last_error_text;

/**
 * Consecutive coordinates that are clipped together.
 */
typedef struct {
  /**
   * Number of coordinates.
   */
  size_t len;
  /**
   * The layer's share of the clip in units of 2^-22, rounded down. The squares of all shares sum to at most 1.
   */
  uint32_t share;
} damper_layer;

/**
 * A declared schedule. Fields that its kinds do not use are not read.
 */
typedef struct {
  /**
   * Bytes of this struct: `DAMPER_SCHEDULE_INIT` sets it.
   */
  size_t size;
  /**
   * One of `damper_lr_decay`.
   */
  uint32_t decay;
  /**
   * One of `damper_noise_schedule`.
   */
  uint32_t noise;
  /**
   * Warm-up steps, over which the learning rate rises from 0 to the configuration's.
   */
  uint32_t warmup;
  /**
   * For `STEP`, `COSINE` and `ROOT_LINEAR`: at least 1.
   */
  uint32_t steps;
  /**
   * For the same decays: from 0 to 1. For `STEP` above 0.
   */
  double factor;
  /**
   * For `POLYNOMIAL`: above 0.
   */
  double offset;
  /**
   * For `POLYNOMIAL`: not negative.
   */
  double slope;
  /**
   * For the noise: not negative.
   */
  double growth;
  /**
   * For the noise: from 0 to 4.
   */
  double exponent;
} damper_schedule;

/**
 * A closed interval of clips or of ranges, within 2^-104 to 2^126.
 */
typedef struct {
  /**
   * Lower end.
   */
  float min;
  /**
   * Upper end.
   */
  float max;
} damper_interval;

/**
 * Fills `bytes`, `len` of them, with true randomness. Returns 0 only when every byte is written. The function must not
 * jump or throw out of the call.
 */
typedef int (*damper_fill)(void *context, uint8_t *bytes, uint32_t len);

/**
 * A record that survives a restart.
 */
typedef struct {
  /**
   * Steps that may be released in total. 0 for a Renyi filter.
   */
  uint32_t budget;
  /**
   * Steps charged, including reserved steps.
   */
  uint32_t paid;
  /**
   * Divergence charged to a Renyi filter. 0 for a ledger.
   */
  double divergence;
  /**
   * Rényi order of a filter. 0 for a ledger.
   */
  uint32_t order;
  /**
   * Fingerprint of the charged configuration: of all values that the privacy cost depends on. 0 if no step was
   * charged.
   */
  uint64_t fingerprint;
} damper_record;

/**
 * Persists a record and replaces the previous record. Returns 0 only when the record would survive a power cut.
 * Otherwise nothing is released. The record is valid only during the call. The function must not jump or throw out of
 * the call. If it calls a function of the run, that returns `DAMPER_STATUS_BUSY`.
 */
typedef int (*damper_persist)(void *context, const damper_record *record);

/**
 * Reads `len` bytes at `offset` of the region into `bytes`. Returns 0, or another number if the flash cannot read
 * them.
 */
typedef int (*damper_flash_read)(void *context, uint32_t offset, uint8_t *bytes, uint32_t len);

/**
 * Writes `len` bytes at `offset` of the region, which are erased. Returns 0 only when they are in the cells.
 */
typedef int (*damper_flash_write)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t len);

/**
 * Erases `len` bytes at `offset` of the region, in whole sectors. Returns 0 only when all bits of them are 1.
 */
typedef int (*damper_flash_erase)(void *context, uint32_t offset, uint32_t len);

/**
 * A region of flash, and its driver. The functions get `context`, return 0 on success, and must not jump or throw out
 * of the call. Writes and reads are of 32 bytes, at offsets that 32 divides. The documentation of the journal
 * (`journal/src/journal.rs`) has the requirements for caches, and for chips on which an interrupted write makes a read
 * fault.
 */
typedef struct {
  /**
   * Bytes of this struct: `DAMPER_FLASH_INIT` sets it.
   */
  size_t size;
  /**
   * Argument of the functions.
   */
  void *context;
  /**
   * Bytes of the region: at least twice the larger of a sector and `damper_journal_erase_size`.
   */
  uint32_t bytes;
  /**
   * Bytes of a sector of the chip. They divide `damper_journal_erase_size`.
   */
  uint32_t erase_bytes;
  /**
   * Bytes of the smallest write. They divide 32.
   */
  uint32_t write_bytes;
  /**
   * Read function.
   */
  damper_flash_read read;
  /**
   * Write function.
   */
  damper_flash_write write;
  /**
   * Erase function.
   */
  damper_flash_erase erase;
} damper_flash;

/**
 * The run that a journal belongs to. The journal opens for no other run, and accepts no charges of another run.
 */
typedef struct {
  /**
   * Bytes of this struct: `DAMPER_JOURNAL_RUN_INIT` sets it.
   */
  size_t size;
  /**
   * The run, configured, with its slots chosen. The journal is bound to its budget and everything that the privacy
   * cost depends on. These are noise and its schedule, sampling rate, samples, number of parameters, expected batch,
   * grid, clip and counts. The run is read only during the call.
   */
  const damper_run *run;
  /**
   * Order of a Renyi filter. 0 for a ledger.
   */
  uint32_t order;
  /**
   * ε of a filter, else 0.
   */
  double epsilon;
  /**
   * δ of a filter, else 0.
   */
  double delta;
  /**
   * Optional bytes that identify what the configuration omits: the data set, a number of the run. Null if absent.
   */
  const uint8_t *description;
  /**
   * Length of `description`, in bytes.
   */
  size_t description_len;
} damper_journal_run;

/**
 * Consecutive coordinates of a gradient.
 */
typedef struct {
  /**
   * The first element. May be null if `len` is 0.
   */
  const float *data;
  /**
   * Number of elements.
   */
  size_t len;
} damper_segment;

/**
 * Pushes a sample's gradient: all of it, in order, in segments of any length, and the same values in each call. It
 * must not call a function of the run.
 */
typedef void (*damper_produce)(void *context, damper_sink *sink);


/**
 * Returns the version of this library, as `DAMPER_VERSION` of its header. Compare both to detect a header of another
 * release.
 */
uint32_t damper_version(void);

/**
 * Returns the name of a status, as in this header. Never null.
 */
const char *damper_status_name(int32_t status);

/**
 * Returns a status as a sentence. Never null.
 */
const char *damper_status_message(int32_t status);

/**
 * Returns the bytes of memory of a run over `dim` parameters. `vectors` is the number of parameter vectors in addition
 * to the sum. `layers` is the number of layers of per-layer clipping. The documentation of each `damper_choose_…` has
 * its number of vectors. Returns 0 if no memory is that large.
 */
size_t damper_run_size(size_t dim, size_t vectors, size_t layers);

/**
 * Returns the alignment of a run's memory, in bytes.
 */
size_t damper_run_align(void);

/**
 * Creates a run over `dim` parameters in `size` bytes at `memory`, aligned to `damper_run_align`. It overwrites all of
 * the memory and reads none of it, so the memory may be uninitialised. The memory belongs to the run until
 * `damper_run_close`.
 *
 * A live run at this address is lost, and its key is overwritten. Its own callback must not do this.
 */
DAMPER_MUST_USE
damper_status damper_run_init(void *memory, size_t size, size_t dim, damper_run **run);

/**
 * Configures a run. Then choose slots, each at most once, in any order.
 *
 * `DAMPER_STATUS_RANGE` also if sums in 32 bits could overflow. With an expected batch B and noise of σ grid units,
 * min(8·B, 4·B + 32)·2^grid_bits + 12·σ must stay below 2^31. Fewer `grid_bits` make room. The same status if the
 * noise is too coarse for the accountant. σ must be at least 2^10 grid units, and σ^2 at least 10 * 2^grid_bits. More
 * `grid_bits` help.
 */
DAMPER_MUST_USE
damper_status damper_run_configure(damper_run *run, const damper_config *config);

/**
 * Checks the configuration as a whole, and ends the choice of slots. There must be a key and a store.
 * `DAMPER_STATUS_CONFIGURATION` if the resumed record belongs to another configuration. After this status or
 * `DAMPER_STATUS_RANGE`, the run is as before `damper_run_configure`.
 */
DAMPER_MUST_USE
damper_status damper_run_start(damper_run *run);

/**
 * Ends a run and wipes all of its memory, including the key. An open step releases nothing, and its charge stays.
 */
DAMPER_MUST_USE
damper_status damper_run_close(damper_run *run);

/**
 * Writes the text of the last `DAMPER_STATUS_RANGE`.
 */
DAMPER_MUST_USE
damper_status damper_last_error(const damper_run *run, damper_last_error_text *refusal);

/**
 * Writes the noise multiplier that the run and the accountant use: σ in grid units over `2^grid_bits`, not below the
 * requested multiplier. A schedule multiplies it.
 */
DAMPER_MUST_USE
damper_status damper_multiplier(const damper_run *run, double *multiplier);

/**
 * Writes the clip of the next step. It is a released value: after a restart it may be the first clip of a threshold.
 */
DAMPER_MUST_USE
damper_status damper_clip(const damper_run *run, float *clip);

/**
 * Returns the share of each of `layers` layers with equal shares.
 */
uint32_t damper_equal_share(size_t layers);

/**
 * Chooses automatic clipping: every gradient is divided by its norm plus `gamma` (finite, at least 1e-18) and scaled
 * to the clip.
 */
DAMPER_MUST_USE
damper_status damper_choose_automatic_clip(damper_run *run, float gamma);

/**
 * Chooses per-layer clipping of `count` layers: to the layer's share of the clip, or automatically if `gamma` is not
 * 0. The layers are copied into the run's memory. Together they must have as many coordinates as the run.
 */
DAMPER_MUST_USE
damper_status damper_choose_layers(damper_run *run, const damper_layer *layers, size_t count, float gamma);

/**
 * Chooses DOPPLER: the recursive filter `y_t = b_0·g_t + b_1·g_(t-1) + … − a_1·y_(t-1) − …`, bias-corrected. `a` is
 * without the leading 1. Neither has more than `DAMPER_MAX_ORDER` delays. Takes as many vectors as the order, which is
 * the larger number of delays.
 */
DAMPER_MUST_USE
damper_status damper_choose_iir(damper_run *run,
                                const float *a,
                                size_t a_len,
                                const float *b,
                                size_t b_len);

/**
 * As `damper_choose_iir`, for the published filter of that name (`momentum`, `d2`, `f6`, `p7`, …) in any case.
 */
DAMPER_MUST_USE
damper_status damper_choose_named_filter(damper_run *run, const char *name);

/**
 * Chooses DiSK's filter with a constant gain `kappa`, from 0.001 to 1. A sample's gradient is evaluated at one point
 * ahead of the parameters. With a `gamma` other than 0 (at least 0.01 in magnitude) there are two points. Takes 2
 * vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_disk(damper_run *run, double kappa, double gamma);

/**
 * Chooses DiSK's filter with the gain of the scalar Kalman recursion. The variances have any common unit. `noise` is
 * that of the noise in a released gradient, `drift` that of the error of the finite difference, below `noise`.
 * `process` is that of the gradient's own change. The rest as in `damper_choose_disk`.
 */
DAMPER_MUST_USE
damper_status damper_choose_disk_recursion(damper_run *run, double noise, double drift, double process, double gamma);

/**
 * Chooses DP-PMLF: per-sample momentum over the last `iterates` (1 to `DAMPER_MAX_ITERATES`) with factor `beta` (−0.9
 * to 1). The filter of `damper_choose_iir` then applies to the release. Gradients are evaluated at `iterates` points.
 * Takes `iterates − 1` vectors and the filter's order.
 */
DAMPER_MUST_USE
damper_status damper_choose_dp_pmlf(damper_run *run,
                                    size_t iterates,
                                    double beta,
                                    const float *a,
                                    size_t a_len,
                                    const float *b,
                                    size_t b_len);

/**
 * Chooses the inner momentum of Xiao et al.: per-sample momentum over the last `iterates` with factor `beta`, not
 * normalised, and no filter after it. Use it with momentum in the optimizer. Takes `iterates − 1` vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_inner_momentum(damper_run *run, size_t iterates, double beta);

/**
 * Chooses SGD with `momentum` in [0, 1) and weight decay, in Nesterov's form if `nesterov` is not 0. Takes 1 vector,
 * or none without momentum.
 */
DAMPER_MUST_USE
damper_status damper_choose_sgd(damper_run *run, float momentum, uint32_t nesterov, float weight_decay);

/**
 * Chooses Adam with `beta1`, `beta2` in [0, 1), `epsilon` above 0 and decoupled weight decay (AdamW). The second
 * moment is that of the released gradient. If `filtered_second_moment` is not 0, it is that of the filtered gradient
 * (DiSK's Adam). Takes 2 vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_adam(damper_run *run,
                                 double beta1,
                                 double beta2,
                                 float epsilon,
                                 double weight_decay,
                                 uint32_t filtered_second_moment);

/**
 * Chooses DP-AdamBC: Adam with the noise's share subtracted from its second moment. The second moment stays above
 * `floor` (a squared gradient, above 0). If `floor_by_noise` is not 0, it also stays above the spread of the noise.
 * Takes 2 vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_adam_bc(damper_run *run,
                                    double beta1,
                                    double beta2,
                                    float floor,
                                    double weight_decay,
                                    uint32_t floor_by_noise);

/**
 * Chooses AdaGrad with `epsilon` above 0 (PyTorch: 1e-10) and weight decay, added to the gradient. Takes 1 vector.
 */
DAMPER_MUST_USE
damper_status damper_choose_adagrad(damper_run *run, float epsilon, float weight_decay);

/**
 * Chooses RMSprop with `alpha` in [0, 1) (PyTorch: 0.99), `epsilon` above 0 (PyTorch: 1e-8) and weight decay, added to
 * the gradient. Takes 1 vector.
 */
DAMPER_MUST_USE
damper_status damper_choose_rmsprop(damper_run *run, double alpha, float epsilon, float weight_decay);

/**
 * Chooses AdaGrad-norm over SGD. The step is divided by the root of `initial` (b_0^2, not negative) plus all squared
 * norms of released gradients. If `subtract_noise` is not 0, the noise's known share is first subtracted from each
 * squared norm. Each is at least `floor` (above 0). SGD's values and vectors as in `damper_choose_sgd`.
 */
DAMPER_MUST_USE
damper_status damper_choose_adagrad_norm(damper_run *run,
                                         double initial,
                                         double floor,
                                         uint32_t subtract_noise,
                                         float momentum,
                                         uint32_t nesterov,
                                         float weight_decay);

/**
 * Chooses a schedule of the learning rate and the noise. ADP is `POLYNOMIAL` with `MATCHED`. The noise is accounted
 * for as a whole: see `damper_epsilon`. As in the configuration, 32 bits must hold the sums, including those with the
 * last step's noise. No step's noise may be too coarse.
 */
DAMPER_MUST_USE
damper_status damper_choose_schedule(damper_run *run, const damper_schedule *schedule);

/**
 * Chooses DC-SGD-P: the clip that leaves about `fraction` of the samples unclipped. It comes from a histogram of
 * norms, released with noise of `count_noise` counts (0.25 to 2^18). The histogram is accounted for with the gradient.
 * The first step has the clip `first_clip` and a histogram over [0, `first_range`). `clips`, which may be null, bounds
 * the clip. The configuration's clip does not apply.
 */
DAMPER_MUST_USE
damper_status damper_choose_percentile(damper_run *run,
                                       double fraction,
                                       double count_noise,
                                       float first_clip,
                                       float first_range,
                                       const damper_interval *clips);

/**
 * Chooses DC-SGD-E: the clip that minimises the expected error. The rest as in `damper_choose_percentile`. The minimum
 * is searched on the paper's grid, or computed in closed form if `exact` is not 0. `ranges`, which may be null, bounds
 * the histogram's range.
 */
DAMPER_MUST_USE
damper_status damper_choose_expected_error(damper_run *run,
                                           uint32_t exact,
                                           double count_noise,
                                           float first_clip,
                                           float first_range,
                                           const damper_interval *clips,
                                           const damper_interval *ranges);

/**
 * Chooses adaptive clipping (Andrew et al.): the clip follows the `quantile` of the norms at rate `rate`. The number
 * of unclipped samples gets noise of `sigma_b`, and `2·sigma_b` is accounted for with the gradient. The rest as in
 * `damper_choose_percentile`.
 */
DAMPER_MUST_USE
damper_status damper_choose_quantile(damper_run *run,
                                     double quantile,
                                     double rate,
                                     double sigma_b,
                                     float first_clip,
                                     const damper_interval *clips);

/**
 * Copies the key of a private run, the 32 bytes at `key`: true randomness for this run only. Use the same key after a
 * restart, because the ledger's numbers record which of its noise was used. The key is as secret as the data.
 * `damper_run_close` wipes the run's copy. The bytes at `key` stay unchanged, and the caller must erase them. Eight
 * equal words give `DAMPER_STATUS_DEAD_GENERATOR`. `damper_set_fresh_key` tests a generator.
 */
DAMPER_MUST_USE
damper_status damper_set_key(damper_run *run, const uint8_t *key);

/**
 * Takes a fresh key for a private run from a generator of true randomness: calls `fill` twice, each time for 32 zero
 * bytes, or once if it fails (`DAMPER_STATUS_NO_KEY`). The first draw is the key. The generator is dead if two of the
 * sixteen 32-bit words are equal or one is 0: `DAMPER_STATUS_DEAD_GENERATOR`. Single unwritten bytes, and a generator
 * that gives the same words at each boot, are not noticed. `fill` may call functions of this run. After an error the
 * run has the key that it had before, if any. A run may take another key after each restart, if its ledger survives.
 * The buffers of both draws are wiped.
 */
DAMPER_MUST_USE
damper_status damper_set_fresh_key(damper_run *run, damper_fill fill, void *context);

/**
 * Makes the run a simulation. The seed is known, so none of its releases is private.
 */
DAMPER_MUST_USE
damper_status damper_set_simulation_seed(damper_run *run, uint64_t seed);

/**
 * Writes 1 if the run has a key, and 0 if it is a simulation.
 */
DAMPER_MUST_USE
damper_status damper_is_private(const damper_run *run, uint32_t *is_private);

/**
 * Sets the store: `persist` gets `context` and persists the ledger before each step that is not reserved.
 */
DAMPER_MUST_USE
damper_status damper_set_store(damper_run *run, damper_persist persist, void *context);

/**
 * Sets a store that loses the ledger at a restart. A restart then releases the same steps again, so use it only in
 * simulations and tests.
 */
DAMPER_MUST_USE
damper_status damper_set_volatile_store(damper_run *run);

/**
 * Resumes after a restart from the stored record. Steps that were charged and not released are lost. Reserve steps
 * after this call. `damper_run_start` returns `DAMPER_STATUS_CONFIGURATION` if the record's fingerprint belongs to
 * another configuration. `DAMPER_STATUS_RECORD` if the record's budget is not the configuration's. The same status if
 * the record is a Renyi filter's: pass that record when you choose the filter.
 */
DAMPER_MUST_USE
damper_status damper_resume(damper_run *run, const damper_record *record);

/**
 * Charges `steps` (at least 1) at a time, to write less often. A restart loses the reserved steps. Call it after
 * `damper_resume`.
 */
DAMPER_MUST_USE
damper_status damper_reserve_steps(damper_run *run, uint32_t steps);

/**
 * Writes the budget and the steps charged and taken so far, which is the number of the next step. For a Renyi filter
 * also writes its divergence.
 */
DAMPER_MUST_USE
damper_status damper_charged_steps(const damper_run *run, damper_record *record);

/**
 * Returns the bytes of memory that a journal needs, aligned to 8.
 */
size_t damper_journal_size(void);

/**
 * Returns the erase size of the journal in bytes, as the library was built: see `damper_flash`.
 */
size_t damper_journal_erase_size(void);

/**
 * Starts a journal with nothing charged, in a region that the caller has erased, in `size` bytes at `memory`. Call it
 * once in the life of a run: in the factory, or by a decision of the device's owner. **Never call it because
 * `damper_journal_open` failed.** A region that was erased after charges looks like a new region, and a new journal
 * would lose those charges. `first_boot` is `DAMPER_FIRST_BOOT`, a constant that no other value equals by accident.
 *
 * `DAMPER_STATUS_OCCUPIED` if the region is not erased. `DAMPER_STATUS_GEOMETRY` if sizes do not fit.
 * `DAMPER_STATUS_RANGE` if `first_boot` is another number.
 */
DAMPER_MUST_USE
damper_status damper_journal_provision(void *memory,
                                       size_t size,
                                       const damper_flash *flash,
                                       const damper_journal_run *run,
                                       uint32_t first_boot,
                                       damper_journal **journal);

/**
 * Opens the journal of a run after a restart, in `size` bytes at `memory`. Then read its record by
 * `damper_journal_record`, and pass it to `damper_resume`, or to the choice of a Renyi filter.
 *
 * If this fails, nothing may be released. `DAMPER_STATUS_BLANK` if the flash has no journal: the device was not
 * provisioned, or its flash was erased. `DAMPER_STATUS_DAMAGED` if charges may be missing: `damper_journal_recover`
 * continues. `DAMPER_STATUS_CONFIGURATION` if it belongs to another configuration or an earlier version. Nothing is
 * erased.
 */
DAMPER_MUST_USE
damper_status damper_journal_open(void *memory,
                                  size_t size,
                                  const damper_flash *flash,
                                  const damper_journal_run *run,
                                  damper_journal **journal);

/**
 * As `damper_journal_open`, but opens a damaged journal. It counts every charge that the damage may hide as
 * `most_steps` steps and, for a Renyi filter, `most_divergence`. `most_steps` is the largest value that was given to
 * `damper_reserve_steps`, else 1. It over-counts, and never under-counts if no charge was larger. With `UINT32_MAX`
 * steps the whole budget counts as charged. Call it only by a decision of the device's owner.
 */
DAMPER_MUST_USE
damper_status damper_journal_recover(void *memory,
                                     size_t size,
                                     const damper_flash *flash,
                                     const damper_journal_run *run,
                                     uint32_t most_steps,
                                     double most_divergence,
                                     damper_journal **journal);

/**
 * Writes the newest record in the journal.
 */
DAMPER_MUST_USE
damper_status damper_journal_record(const damper_journal *journal, damper_record *record);

/**
 * Persists a record: the callback for `damper_set_store`, with the journal as its context. Returns 0 when the record
 * would survive a power cut, else a status.
 */
int damper_journal_persist(void *journal, const damper_record *record);

/**
 * Ends the use of a journal and wipes its memory. The flash keeps what was persisted.
 */
DAMPER_MUST_USE
damper_status damper_journal_close(damper_journal *journal);

/**
 * Charges a step, persists the charge, and opens the step. Writes its number, counted from 0 over all restarts.
 * Without a durable charge no step opens.
 *
 * `DAMPER_STATUS_BUDGET_SPENT` at the end of training. `DAMPER_STATUS_NOT_PERSISTED` if the store failed: the step is
 * lost, and the next may be tried.
 */
DAMPER_MUST_USE
damper_status damper_step_open(damper_run *run, uint32_t *number);

/**
 * Starts the draw of the open step, as configured. Each of `0..samples` is drawn independently with probability
 * `sampling_rate / 2^53`. A step of `damper_step_open_adaptive` is drawn at the rate that was charged. A step has one
 * draw.
 *
 * `DAMPER_STATUS_RANGE` if the configuration has no samples.
 */
DAMPER_MUST_USE
damper_status damper_batch_begin(damper_run *run);

/**
 * Writes the index of the next drawn sample, in ascending order. `DAMPER_STATUS_END` after the last.
 */
DAMPER_MUST_USE
damper_status damper_batch_next(damper_run *run, uint32_t *index);

/**
 * Adds one sample to the open step: its gradient (`[dim]`) at the only evaluation point, or combined by the caller
 * (see `damper_eval_point`). It is clipped, rounded to the grid and summed. If its squared norm is not a finite
 * `float`, it adds exactly nothing.
 */
DAMPER_MUST_USE
damper_status damper_add(damper_run *run, const float *grad, size_t len);

/**
 * As `damper_add`, for a gradient in `count` consecutive segments, at most `DAMPER_MAX_SEGMENTS`. A segment may be a
 * tensor.
 */
DAMPER_MUST_USE
damper_status damper_add_segments(damper_run *run, const damper_segment *segments, size_t count);

/**
 * Writes the number of evaluation points of each sample's gradient in the open step.
 */
DAMPER_MUST_USE
damper_status damper_eval_points(const damper_run *run, size_t *points);

/**
 * Writes evaluation point `index` (`[dim]`) to `point` and the weight of its gradients to `weight`. To combine
 * gradients elsewhere, compute `u = w_0·g_0`, then `u = u + w_j·g_j` in order, and round after each operation. Then
 * add `u` by `damper_add`.
 */
DAMPER_MUST_USE
damper_status damper_eval_point(const damper_run *run,
                                size_t index,
                                const float *params,
                                size_t params_len,
                                float *point,
                                size_t point_len,
                                float *weight);

/**
 * Takes 1 vector, in which `damper_combine_…` combines the gradients of a sample at several points. Call it before
 * `damper_run_start`.
 */
DAMPER_MUST_USE
damper_status damper_reserve_combining(damper_run *run);

/**
 * Starts a sample with gradients at several points, which come one at a time. A sample without an end adds nothing.
 */
DAMPER_MUST_USE
damper_status damper_combine_begin(damper_run *run);

/**
 * Writes the next evaluation point of the sample (`[dim]`) to `point`. `DAMPER_STATUS_END` after the last.
 */
DAMPER_MUST_USE
damper_status damper_combine_eval_point(damper_run *run,
                                        const float *params,
                                        size_t params_len,
                                        float *point,
                                        size_t point_len);

/**
 * Adds the sample's gradient (`[dim]`) at the last written point to the combination.
 */
DAMPER_MUST_USE
damper_status damper_combine_add(damper_run *run, const float *grad, size_t len);

/**
 * As `damper_combine_add`, for a gradient in segments as in `damper_add_segments`.
 */
DAMPER_MUST_USE
damper_status damper_combine_add_segments(damper_run *run, const damper_segment *segments, size_t count);

/**
 * Ends the sample: clips the combined gradient and adds it. `DAMPER_STATUS_ORDER` if a point is missing. Nothing is
 * added then.
 */
DAMPER_MUST_USE
damper_status damper_combine_end(damper_run *run);

/**
 * Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[dim]`). Then releases
 * the counts, if the threshold has any, and updates the threshold from them. The step is then over. If the call fails,
 * the step stays open.
 *
 * Parameters must be finite. They are the only release of the step.
 */
DAMPER_MUST_USE
damper_status damper_step_finish(damper_run *run, float *params, size_t len);

/**
 * Abandons the open step. Nothing is released, its sum is wiped, and its charge stays.
 */
DAMPER_MUST_USE
damper_status damper_step_abandon(damper_run *run);

/**
 * Returns 1 if the sink skips the next `len` values in this pass. The producer must then not push them. A producer
 * need not call this.
 */
uint32_t damper_sink_skip(damper_sink *sink, size_t len);

/**
 * Pushes the next `len` values of the gradient.
 */
void damper_sink_push(damper_sink *sink, const float *segment, size_t len);

/**
 * As `damper_add`, for a gradient that is not in memory. It calls `produce` several times. The sum has the same bits.
 * `DAMPER_STATUS_LENGTH` if the number of values is not `[dim]`. Nothing is added then.
 */
DAMPER_MUST_USE
damper_status damper_add_streamed(damper_run *run, damper_produce produce, void *context);

/**
 * Writes the gradient that `produce` pushes to `grad`. `DAMPER_STATUS_LENGTH` if the number of values is not `len`.
 */
DAMPER_MUST_USE
damper_status damper_store_streamed(damper_produce produce, void *context, float *grad, size_t len);

/**
 * Returns the bytes of memory that a shard over `dim` parameters needs, with the alignment of a run. Returns 0 if no
 * memory is that large.
 */
size_t damper_shard_size(size_t dim);

/**
 * Creates a shard of the open step in `size` bytes at `memory`. Samples in it count when it is merged. Another thread
 * may add to it while this thread uses the run: only opening and merging touch both. Samples are clipped as in the
 * run. The step has the same bits for every order and number of shards.
 *
 * Merge or close it before its run is closed. After the end of the step it can only be closed.
 */
DAMPER_MUST_USE
damper_status damper_shard_open(damper_run *run, void *memory, size_t size, damper_shard **shard);

/**
 * Adds one sample to a shard, as `damper_add` does to the step.
 */
DAMPER_MUST_USE
damper_status damper_shard_add(damper_shard *shard, const float *grad, size_t len);

/**
 * As `damper_shard_add`, for a gradient in segments as in `damper_add_segments`.
 */
DAMPER_MUST_USE
damper_status damper_shard_add_segments(damper_shard *shard, const damper_segment *segments, size_t count);

/**
 * Adds the sum of a shard to the open step of its run, ends the shard and wipes its memory. `DAMPER_STATUS_ORDER` if
 * it belongs to another step or run. It is unchanged then.
 */
DAMPER_MUST_USE
damper_status damper_shard_merge(damper_run *run, damper_shard *shard);

/**
 * Ends a shard without adding it, and wipes its memory.
 */
DAMPER_MUST_USE
damper_status damper_shard_close(damper_shard *shard);

/**
 * Charges the run's steps to a Rényi filter instead of its ledger. The run stays within (`epsilon`, `delta`) by the
 * divergence of the integer `order` (2 to 1024), whatever noise is chosen from what was released. The configuration's
 * budget must be 0. Takes `DAMPER_RENYI_FILTER_BYTES`. After a restart `record` is the stored record. It is null if
 * nothing was charged. `DAMPER_STATUS_RECORD` if the record belongs to a ledger or has another order.
 *
 * The best order follows from the run as planned. A small order cannot prove a small ε (`DAMPER_STATUS_RANGE`).
 */
DAMPER_MUST_USE
damper_status damper_choose_renyi_filter(damper_run *run,
                                         uint32_t order,
                                         double epsilon,
                                         double delta,
                                         const damper_record *record);

/**
 * Writes 1 if the filter's budget covers a step with noise of `factor` times the configuration's at this sampling
 * rate, in units of 2^-53. Otherwise writes 0. Choose both only from released values and constants.
 */
DAMPER_MUST_USE
damper_status damper_fits_budget(const damper_run *run, double factor, uint64_t rate, uint32_t *admits);

/**
 * As `damper_step_open`, for a step with noise of `factor` times the configuration's, drawn at this rate. The step is
 * charged to the filter. If it does not fit, returns `DAMPER_STATUS_BUDGET_SPENT`, and a step with more noise may be
 * tried. The step's number is counted from 2^31. The schedule's noise does not apply. `damper_batch_begin` draws at
 * this rate.
 */
DAMPER_MUST_USE
damper_status damper_step_open_adaptive(damper_run *run, double factor, uint64_t rate, uint32_t *number);

/**
 * Writes the number of bytes that `damper_state_save` writes. Call it between steps of a started run.
 */
DAMPER_MUST_USE
damper_status damper_state_size(const damper_run *run, size_t *size);

/**
 * Writes the state of filter, threshold and optimizer to `bytes`, which must be as long as `damper_state_size`
 * returns. Store it with the parameters of the same step. All of it was released, so it is as public as the
 * parameters.
 */
DAMPER_MUST_USE
damper_status damper_state_save(const damper_run *run, uint8_t *bytes, size_t len);

/**
 * Restores the state from `damper_state_save` in a started run of the same configuration, with its stored record.
 * `DAMPER_STATUS_DAMAGED` if the bytes were changed. `DAMPER_STATUS_CONFIGURATION` if they belong to another method or
 * another number of parameters. `DAMPER_STATUS_RECORD` if they were saved after more steps than are charged: an older
 * record was restored. The checksum detects damage but not forgery. Forged bytes cost accuracy and no privacy.
 */
DAMPER_MUST_USE
damper_status damper_state_restore(damper_run *run, const uint8_t *bytes, size_t len);

/**
 * Writes the largest sampling rate that is at most `expected_batch / dataset_size`, in units of 2^-53. The draw uses
 * exactly this rate, and so does the accountant. `DAMPER_STATUS_RANGE` if the batch is larger than the data set, or
 * the data set is empty.
 */
DAMPER_MUST_USE
damper_status damper_sampling_rate(uint64_t expected_batch, uint64_t dataset_size, uint64_t *rate);

/**
 * Writes ε at `delta` of the first `steps` steps of a started run at this sampling rate. It is an upper bound for
 * gradients and counts together, with the schedule's noise. It is infinity if no guarantee holds. Neighbours: one
 * sample is replaced by a sample that contributes nothing. `DAMPER_STATUS_RANGE` unless `0 < delta < 1` and
 * `rate <= DAMPER_SAMPLING_RATE_ONE`.
 *
 * Needs 2.1 KB of stack. Consecutive steps with equal noise are composed at once. With a noise schedule the time is
 * proportional to `steps`.
 */
DAMPER_MUST_USE
damper_status damper_epsilon(const damper_run *run, uint64_t rate, uint32_t steps, double delta, double *epsilon);

/**
 * As `damper_epsilon`, with integer orders only: with three quarters of the flash and less stack. Never below it. For
 * an ε below 10, the measured excess is at most 3 % at multipliers from 1, and at most 10 % from 0.7. At 0.5 it is up
 * to a third.
 */
DAMPER_MUST_USE
damper_status damper_epsilon_integer_orders(const damper_run *run,
                                            uint64_t rate,
                                            uint32_t steps,
                                            double delta,
                                            double *epsilon);

/**
 * Returns `e^x`, with the same bits on every target.
 */
float damper_exp(float x);

/**
 * Returns the natural logarithm, with the same bits on every target.
 */
float damper_ln(float x);

/**
 * Returns the square root, correctly rounded.
 */
float damper_sqrt(float x);

/**
 * Returns the number of the contract of bits: libraries with the same number compute the same bits.
 */
uint32_t damper_bits_contract(void);

/**
 * Checks that this thread's arithmetic follows IEEE 754: round to nearest, with subnormal numbers, and without fused
 * multiply-add. Other modes give other bits. Call it at boot, and after code that may set the floating-point control
 * register (`FPSCR` on Arm, `MXCSR` on x86-64). `DAMPER_STATUS_ARITHMETIC` if it differs: do not train.
 */
DAMPER_MUST_USE
damper_status damper_self_test(void);

#ifdef __cplusplus
}
#endif

#endif /* DAMPER_H */
