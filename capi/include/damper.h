/* damper for C: differentially private training on a device, in memory that the caller owns. No heap, no globals.
 *
 * Written by cbindgen from the crate damper-capi; do not edit. README.md beside it has a complete program. The header is C89 and
 * C++98. Beyond C89 it needs <stdint.h>, which compilers have in their C89 mode too.
 *
 * The contract of every function
 *
 * Pointers: a pointer is null or points to memory of the length that is said. Nobody else reads or writes that memory during the
 * call. What a function reads is initialised: all that a pointer to const points to, and the parameters that a step updates.
 * Memory for a run, a shard or a result may be uninitialised: the library writes it before it reads it. A status answers a
 * pointer that is null where none may be, misaligned, or into the run's memory.
 *
 * Handles: a pointer to a damper_run is one that damper_run_init wrote. Until damper_run_close the run's memory belongs to the
 * library: do not move, copy, read, write or free it. After that it is zeros, and the handle is answered by
 * DAMPER_STATUS_NOT_A_RUN until you use the memory for something else. Do not pass a pointer to memory in which no run was made.
 * The library reads a mark at a handle, and the mark holds its address: so it also refuses a run that was moved or copied. The same
 * holds for a damper_shard, from damper_shard_open to damper_shard_merge or damper_shard_close.
 *
 * Const: a function with a pointer to a const damper_run changes nothing of the run but the text of damper_last_error.
 *
 * Threads: runs share nothing. One run must not be used by two threads, or by an interrupt and what it interrupts, at once.
 *
 * Sizes: a struct that begins with `size` holds its size in the header that the program was compiled with. DAMPER_CONFIG_INIT,
 * DAMPER_SCHEDULE_INIT, DAMPER_FLASH_INIT and DAMPER_JOURNAL_RUN_INIT set it. Later versions only append fields, take the structs of earlier versions, and read a missing field
 * as 0. A library refuses a size that it does not know by DAMPER_STATUS_SIZE.
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
 * Lets the compiler warn where a status is not used. Empty for other compilers, or if you define it so.
 */
#ifndef DAMPER_MUST_USE
#if defined(__GNUC__)
#define DAMPER_MUST_USE __attribute__((__warn_unused_result__))
#else
#define DAMPER_MUST_USE
#endif
#endif

/**
 * Bytes of static memory for a run, to be aligned to 8: enough on every target. `damper_run_size` is exact.
 */
#define DAMPER_RUN_BYTES(dim, vectors, layers) \
  (64 * sizeof(void *) + 880 + 4 * (size_t)(dim) * (1 + (size_t)(vectors)) + 2 * sizeof(size_t) * (size_t)(layers))

/**
 * Bytes of static memory for a shard, to be aligned to 8: enough on every target. `damper_shard_size` is exact.
 */
#define DAMPER_SHARD_BYTES(dim) (16 * sizeof(void *) + 128 + 4 * (size_t)(dim))

/**
 * Bytes of static memory for a journal, to be aligned to 8: enough on every target. `damper_journal_size` is exact.
 */
#define DAMPER_JOURNAL_BYTES (9 * sizeof(void *) + 64)

/**
 * A sampling rate of 1.
 */
#define DAMPER_SAMPLING_RATE_ONE ((uint64_t)1 << 53)

/**
 * Initialises a `damper_config`: its size, and 0 for the rest, which is refused until it is set.
 */
#define DAMPER_CONFIG_INIT {sizeof(damper_config), 0, 0, 0.0, 0.0, 0.0f, 0, 0, 0}

/**
 * Initialises a `damper_schedule`: its size, and 0 for the rest, which changes nothing.
 */
#define DAMPER_SCHEDULE_INIT {sizeof(damper_schedule), 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0}

/**
 * Initialises a `damper_flash`: its size, and nothing else, which is refused until it is set.
 */
#define DAMPER_FLASH_INIT {sizeof(damper_flash), NULL, 0, 0, 0, NULL, NULL, NULL}

/**
 * Initialises a `damper_journal_run`: its size, and nothing else.
 */
#define DAMPER_JOURNAL_RUN_INIT {sizeof(damper_journal_run), NULL, 0, 0.0, 0.0, NULL, 0}


/**
 * The version of this header: a new number breaks programs.
 */
#define DAMPER_VERSION_MAJOR 0

/**
 * A new number adds functions or fields, and breaks programs while the first is 0.
 */
#define DAMPER_VERSION_MINOR 1

/**
 * A new number changes no function.
 */
#define DAMPER_VERSION_PATCH 0

/**
 * The largest order of a recursive filter.
 */
#define DAMPER_MAX_ORDER 8

/**
 * The most iterates of per-sample momentum.
 */
#define DAMPER_MAX_ITERATES 8

/**
 * Bins of a histogram of norms, as in the paper of DC-SGD.
 */
#define DAMPER_BINS 20

/**
 * Says to `damper_journal_provision` that nothing was ever charged to this run.
 */
#define DAMPER_FIRST_BOOT 1178742833

/**
 * The most segments of a gradient in one call.
 */
#define DAMPER_MAX_SEGMENTS 32

/**
 * Bytes that a run needs beyond `damper_run_size` or `DAMPER_RUN_BYTES` where a Renyi filter is charged.
 */
#define DAMPER_RENYI_FILTER_BYTES 40

/**
 * The result of a call. Below 16 it succeeded. Any other call was refused as a whole: nothing was added, released or changed, unless
 * the status' sentence says so. Numbers are stable.
 */
typedef int32_t damper_status;
enum {
  /**
   * Done.
   */
  DAMPER_STATUS_OK = 0,
  /**
   * There is nothing more: no further sample in the draw, no further point of the sample.
   */
  DAMPER_STATUS_END = 1,
  /**
   * A pointer is null.
   */
  DAMPER_STATUS_NULL = 16,
  /**
   * A pointer is not aligned for what it points to.
   */
  DAMPER_STATUS_MISALIGNED = 17,
  /**
   * The memory of the run is too small for it and what was chosen.
   */
  DAMPER_STATUS_TOO_SMALL = 18,
  /**
   * A length is not the one that is needed.
   */
  DAMPER_STATUS_LENGTH = 19,
  /**
   * A buffer overlaps the run's memory or another buffer of the call.
   */
  DAMPER_STATUS_OVERLAP = 20,
  /**
   * There is no run at this address: it was closed, moved or copied.
   */
  DAMPER_STATUS_NOT_A_RUN = 21,
  /**
   * The run is in a call already: the callback called back.
   */
  DAMPER_STATUS_BUSY = 22,
  /**
   * The call is out of order: see the function.
   */
  DAMPER_STATUS_ORDER = 23,
  /**
   * A number is out of its range: `damper_last_error` says which, and what it must be.
   */
  DAMPER_STATUS_RANGE = 24,
  /**
   * The run has no key.
   */
  DAMPER_STATUS_NO_KEY = 25,
  /**
   * The run has no store for its ledger.
   */
  DAMPER_STATUS_NO_STORE = 26,
  /**
   * The privacy budget is spent: stop.
   */
  DAMPER_STATUS_BUDGET_SPENT = 27,
  /**
   * The ledger could not be persisted: nothing is released, and the step is burned.
   */
  DAMPER_STATUS_NOT_PERSISTED = 28,
  /**
   * The record is another budget's.
   */
  DAMPER_STATUS_RECORD = 29,
  /**
   * There is no shard at this address: it was merged, closed, moved or copied.
   */
  DAMPER_STATUS_NOT_A_SHARD = 30,
  /**
   * The bytes are not what was saved.
   */
  DAMPER_STATUS_DAMAGED = 31,
  /**
   * The saved state belongs to another configuration.
   */
  DAMPER_STATUS_CONFIGURATION = 32,
  /**
   * The `size` of a struct is not one that this library knows: header and library are of different versions.
   */
  DAMPER_STATUS_SIZE = 33,
  /**
   * The processor computes otherwise than by IEEE 754: see `damper_self_test`.
   */
  DAMPER_STATUS_ARITHMETIC = 34,
  /**
   * There is no journal at this address: it was closed, moved or copied.
   */
  DAMPER_STATUS_NOT_A_JOURNAL = 35,
  /**
   * The flash did not do what it was asked.
   */
  DAMPER_STATUS_FLASH = 36,
  /**
   * The sizes of a region of flash do not fit: see `damper_flash`.
   */
  DAMPER_STATUS_GEOMETRY = 37,
  /**
   * There is no journal in the flash: the device was not provisioned, or its flash was erased. Nothing may be released.
   */
  DAMPER_STATUS_BLANK = 38,
  /**
   * A region that is to be provisioned is not erased.
   */
  DAMPER_STATUS_OCCUPIED = 39,
  /**
   * The flash does not keep what is written.
   */
  DAMPER_STATUS_WORN = 40
};

/**
 * How the learning rate falls.
 */
typedef uint32_t damper_lr_decay;
enum {
  /**
   * Not at all.
   */
  DAMPER_LR_DECAY_NONE = 0,
  /**
   * By `factor` every `steps` steps.
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
 * How the noise changes.
 */
typedef uint32_t damper_noise_schedule;
enum {
  /**
   * Not at all.
   */
  DAMPER_NOISE_SCHEDULE_NONE = 0,
  /**
   * `(η_0/η_t)^exponent`: as the learning rate falls (ADP).
   */
  DAMPER_NOISE_SCHEDULE_MATCHED = 1,
  /**
   * `(1 + growth·t)^(exponent/2)`.
   */
  DAMPER_NOISE_SCHEDULE_POLYNOMIAL = 2
};

/**
 * A journal. Opaque: in memory of the caller's, which must not be moved, copied, read or written until it is closed.
 */
typedef struct damper_journal damper_journal;

/**
 * A run. Opaque: in memory of the caller's, which must not be moved, copied, read or written until it is closed.
 */
typedef struct damper_run damper_run;

/**
 * A worker's share of a step. Opaque: in memory of the caller's, which must not be moved, copied, read or written until it is
 * merged or closed. It holds a sum of private gradients.
 */
typedef struct damper_shard damper_shard;

/**
 * A sink: it takes a gradient in segments. Only the producer that was given it may use it, before that returns.
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
   * The grid: the clip is `2^grid_bits` units; 8 to 22. Choose `2^grid_bits` far above the root of the number of
   * parameters; 16 suits most.
   */
  uint32_t grid_bits;
  /**
   * The divisor of the sum of gradients: the expected number of samples in a draw; 1 to 2^24.
   */
  uint32_t expected_batch;
  /**
   * Standard deviation of the noise over the clip; above 0. It is rounded up to the grid: see `damper_multiplier`.
   */
  double noise_multiplier;
  /**
   * The learning rate.
   */
  double learning_rate;
  /**
   * The Euclidean norm that no sample's gradient exceeds in the sum.
   */
  float clip;
  /**
   * Steps that may be released in all, at most 2^31; 0 where a Renyi filter is charged.
   */
  uint32_t budget;
  /**
   * The samples that each step draws from, by `damper_batch_begin`; 0 where the program draws in its own way.
   */
  uint32_t samples;
  /**
   * The probability of each of them, in units of 2^-53; at most `DAMPER_SAMPLING_RATE_ONE`. It is the rate to be priced.
   */
  uint64_t sampling_rate;
} damper_config;

/**
 * Why `DAMPER_STATUS_RANGE` was answered last: which number, and what it must be. The texts are not ended by a zero:
 * print them with `%.*s`. They stay valid for ever; empty where nothing was refused.
 */
typedef struct {
  /**
   * The number, in words.
   */
  const char *parameter;
  /**
   * Bytes of it.
   */
  size_t parameter_len;
  /**
   * The permitted values, in words.
   */
  const char *must_be;
  /**
   * Bytes of it.
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
   * The layer's share of the clip in units of 2^-22, rounded down; the squares of all shares are at most 1 together.
   */
  uint32_t share;
} damper_layer;

/**
 * A declared schedule. Numbers that its kinds do not name are not read.
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
   * Steps over which the learning rate rises from 0 to the configuration's.
   */
  uint32_t warmup;
  /**
   * Of `STEP`, `COSINE` and `ROOT_LINEAR`: at least 1.
   */
  uint32_t steps;
  /**
   * Of the same: from 0 to 1; of `STEP` above 0.
   */
  double factor;
  /**
   * Of `POLYNOMIAL`: above 0.
   */
  double offset;
  /**
   * Of `POLYNOMIAL`: not negative.
   */
  double slope;
  /**
   * Of the noise: not negative.
   */
  double growth;
  /**
   * Of the noise: from 0 to 4.
   */
  double exponent;
} damper_schedule;

/**
 * A closed interval, of clips or of ranges: from 2^-104 to 2^126.
 */
typedef struct {
  /**
   * The least.
   */
  float min;
  /**
   * The largest.
   */
  float max;
} damper_interval;

/**
 * A record that survives a restart.
 */
typedef struct {
  /**
   * Steps that may be released in all; of a Renyi filter, 0.
   */
  uint32_t budget;
  /**
   * Steps charged, those reserved included.
   */
  uint32_t paid;
  /**
   * The divergence that a Renyi filter spent; 0 of a ledger.
   */
  double divergence;
  /**
   * The Rényi order of a filter; 0 for a ledger.
   */
  uint32_t order;
  /**
   * The fingerprint of the configuration that is charged: of all that the price depends on. 0 where no step was charged.
   */
  uint64_t fingerprint;
} damper_record;

/**
 * Persists a record in the place of the one before it. Returns 0 only when the record would survive a power cut; else
 * nothing is released. The record is valid during the call alone. It must not jump or throw out of the call, and the
 * run's functions answer it `DAMPER_STATUS_BUSY`.
 */
typedef int (*damper_persist)(void *context, const damper_record *record);

/**
 * Reads `len` bytes at `offset` of the region into `bytes`. Returns 0, or another number where the flash cannot read them.
 */
typedef int (*damper_flash_read)(void *context, uint32_t offset, uint8_t *bytes, uint32_t len);

/**
 * Writes `len` bytes at `offset` of the region, which are erased. Returns 0 only when they are in the cells.
 */
typedef int (*damper_flash_write)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t len);

/**
 * Erases `len` bytes at `offset` of the region: whole sectors. Returns 0 only when every bit of them is 1.
 */
typedef int (*damper_flash_erase)(void *context, uint32_t offset, uint32_t len);

/**
 * A region of flash, and its driver. The functions return 0 where they did what they were asked, are given `context`, and must not jump
 * or throw out of the call. Writes and reads are of 32 bytes, at offsets that 32 divides. What a driver must do where a cut write
 * makes a read fault, and about caches, is in the documentation of the journal (`journal/src/journal.rs`).
 */
typedef struct {
  /**
   * Bytes of this struct: `DAMPER_FLASH_INIT` sets it.
   */
  size_t size;
  /**
   * Given to the functions.
   */
  void *context;
  /**
   * Bytes of the region: two or more times the larger of a sector and `damper_journal_erase_size`.
   */
  uint32_t bytes;
  /**
   * Bytes of a sector of the chip, which divide `damper_journal_erase_size`.
   */
  uint32_t erase_bytes;
  /**
   * Bytes of the smallest write, which divide 32.
   */
  uint32_t write_bytes;
  /**
   * Reads.
   */
  damper_flash_read read;
  /**
   * Writes.
   */
  damper_flash_write write;
  /**
   * Erases.
   */
  damper_flash_erase erase;
} damper_flash;

/**
 * The run that a journal belongs to. The journal opens for no other run, and takes the charges of no other.
 */
typedef struct {
  /**
   * Bytes of this struct: `DAMPER_JOURNAL_RUN_INIT` sets it.
   */
  size_t size;
  /**
   * The run, configured, its slots chosen: its budget and all that the price depends on (noise and its schedule, sampling rate, samples,
   * number of parameters, expected batch, grid, clip, counts) are what the journal is bound to. It is read in the call alone.
   */
  const damper_run *run;
  /**
   * The order of a Renyi filter; 0 for a ledger.
   */
  uint32_t order;
  /**
   * A filter's ε, else 0.
   */
  double epsilon;
  /**
   * A filter's δ, else 0.
   */
  double delta;
  /**
   * Bytes that name what the configuration does not know: the data set, a number of the run. An addition; null where there are none.
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
   * The first; may be null where there are none.
   */
  const float *data;
  /**
   * Number of elements.
   */
  size_t len;
} damper_segment;

/**
 * Yields a sample's gradient: all of it, in order, in segments of any length, and the same each time it is asked. It calls no function
 * of the run.
 */
typedef void (*damper_produce)(void *context, damper_sink *sink);


/**
 * The version of this library, as `DAMPER_VERSION` of its header. A program that compares both finds a header of another
 * release.
 */
uint32_t damper_version(void);

/**
 * The name of a status, as in this header. Never null.
 */
const char *damper_status_name(int32_t status);

/**
 * A status as a sentence. Never null.
 */
const char *damper_status_message(int32_t status);

/**
 * Bytes of memory that a run over `dim` parameters needs, with `vectors` vectors of parameters beyond the sum (each
 * `damper_choose_…` says how many it takes) and `layers` layers of per-layer clipping. 0 where no memory is that
 * large.
 */
size_t damper_run_size(size_t dim, size_t vectors, size_t layers);

/**
 * The alignment that a run's memory needs, in bytes.
 */
size_t damper_run_align(void);

/**
 * Makes a run over `dim` parameters in `size` bytes at `memory`, aligned to `damper_run_align`. All of the memory is
 * overwritten, and nothing of it is read: it may be uninitialised. It is the run's until `damper_run_close`.
 *
 * A run that is live at this address is lost, its key overwritten. Its own callback must not do this.
 */
DAMPER_MUST_USE
damper_status damper_run_init(void *memory, size_t size, size_t dim, damper_run **run);

/**
 * Configures a run. Then slots are chosen, each at most once, in any order.
 *
 * `DAMPER_STATUS_RANGE` also where sums in 32 bits could overflow: with an expected batch B and noise of σ grid units,
 * min(8·B, 4·B + 32)·2^grid_bits + 12·σ must stay below 2^31. Fewer `grid_bits` make room. And where the noise is too coarse for its price: σ
 * must be at least 2^10 grid units, and σ^2 at least 10 * 2^grid_bits. More `grid_bits` help.
 */
DAMPER_MUST_USE
damper_status damper_run_configure(damper_run *run,
                                   const damper_config *config);

/**
 * Checks the configuration as a whole, and ends choosing. There must be a key and a store. Where it answers
 * `DAMPER_STATUS_RANGE`, or `DAMPER_STATUS_CONFIGURATION` because the record that was resumed is of another configuration, the run is as it was
 * before it was configured.
 */
DAMPER_MUST_USE
damper_status damper_run_start(damper_run *run);

/**
 * Ends a run and wipes all of its memory, the key too. An open step releases nothing, and its charge stays.
 */
DAMPER_MUST_USE
damper_status damper_run_close(damper_run *run);

/**
 * Writes why `DAMPER_STATUS_RANGE` was answered last.
 */
DAMPER_MUST_USE
damper_status damper_last_error(const damper_run *run, damper_last_error_text *refusal);

/**
 * Writes the noise multiplier that runs and is priced: σ in grid units over `2^grid_bits`, not below the one that was
 * asked for. A schedule multiplies it.
 */
DAMPER_MUST_USE
damper_status damper_multiplier(const damper_run *run, double *multiplier);

/**
 * Writes the clip of the coming step. It is released: after a restart it may be the first clip of a threshold.
 */
DAMPER_MUST_USE
damper_status damper_clip(const damper_run *run, float *clip);

/**
 * The share of each of `layers` layers with equal shares.
 */
uint32_t damper_equal_share(size_t layers);

/**
 * Clips automatically: every gradient is divided by its norm plus `gamma` (finite, at least 1e-18) and scaled to the
 * clip.
 */
DAMPER_MUST_USE
damper_status damper_choose_automatic_clip(damper_run *run, float gamma);

/**
 * Clips each of `count` layers on its own: to its share of the clip, or, with a `gamma` other than 0, automatically.
 * The layers are copied into the run's memory; together they must have as many coordinates as the run.
 */
DAMPER_MUST_USE
damper_status damper_choose_layers(damper_run *run, const damper_layer *layers, size_t count, float gamma);

/**
 * DOPPLER: the recursive filter `y_t = b_0·g_t + b_1·g_(t-1) + … − a_1·y_(t-1) − …`, bias-corrected; `a` without the
 * leading 1, neither of more than `DAMPER_MAX_ORDER` delays. Takes as many vectors as its order, the larger number of
 * delays.
 */
DAMPER_MUST_USE
damper_status damper_choose_iir(damper_run *run,
                                const float *a,
                                size_t a_len,
                                const float *b,
                                size_t b_len);

/**
 * The published filter of that name (`momentum`, `d2`, `f6`, `p7`, …; in any case), as `damper_choose_iir`.
 */
DAMPER_MUST_USE
damper_status damper_choose_named_filter(damper_run *run, const char *name);

/**
 * DiSK's filter with a constant gain `kappa`, from 0.001 to 1. A sample's gradient is wanted at one point ahead of the
 * parameters, or, with a `gamma` other than 0 (at least 0.01 in magnitude), at two. Takes 2 vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_disk(damper_run *run, double kappa, double gamma);

/**
 * DiSK's filter with the gain of the scalar Kalman recursion: variances of the noise in a released gradient, of the
 * error of the finite difference (`drift`, below `noise`) and of the gradient's own change (`process`), in any common
 * unit. Else as `damper_choose_disk`.
 */
DAMPER_MUST_USE
damper_status damper_choose_disk_recursion(damper_run *run, double noise, double drift, double process, double gamma);

/**
 * DP-PMLF: per-sample momentum over the last `iterates` (1 to `DAMPER_MAX_ITERATES`) with factor `beta` (−0.9 to 1),
 * and the filter of `damper_choose_iir` on what is released. Gradients are wanted at as many points. Takes `iterates −
 * 1` vectors and the filter's order.
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
 * The inner momentum of Xiao et al.: per-sample momentum over the last `iterates` with factor `beta`, not normalised,
 * and no filter after it; beside it momentum in the optimizer. Takes `iterates − 1` vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_inner_momentum(damper_run *run, size_t iterates, double beta);

/**
 * SGD with `momentum` in [0, 1), Nesterov's form if `nesterov` is not 0, and weight decay. Takes 1 vector, none
 * without momentum.
 */
DAMPER_MUST_USE
damper_status damper_choose_sgd(damper_run *run, float momentum, uint32_t nesterov, float weight_decay);

/**
 * Adam with `beta1`, `beta2` in [0, 1), `epsilon` above 0 and decoupled weight decay (AdamW). The second moment is of
 * the released gradient, or, if `filtered_second_moment` is not 0, of the filtered one (DiSK's Adam). Takes 2 vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_adam(damper_run *run,
                                 double beta1,
                                 double beta2,
                                 float epsilon,
                                 double weight_decay,
                                 uint32_t filtered_second_moment);

/**
 * DP-AdamBC: Adam whose second moment has the noise's share subtracted, kept above `floor` (a squared gradient, above
 * 0), and, if `floor_by_noise` is not 0, above what the noise spreads by. Takes 2 vectors.
 */
DAMPER_MUST_USE
damper_status damper_choose_adam_bc(damper_run *run,
                                    double beta1,
                                    double beta2,
                                    float floor,
                                    double weight_decay,
                                    uint32_t floor_by_noise);

/**
 * AdaGrad with `epsilon` above 0 (PyTorch: 1e-10) and weight decay, added to the gradient. Takes 1 vector.
 */
DAMPER_MUST_USE
damper_status damper_choose_adagrad(damper_run *run, float epsilon, float weight_decay);

/**
 * RMSprop with `alpha` in [0, 1) (PyTorch: 0.99), `epsilon` above 0 (PyTorch: 1e-8) and weight decay, added to the
 * gradient. Takes 1 vector.
 */
DAMPER_MUST_USE
damper_status damper_choose_rmsprop(damper_run *run, double alpha, float epsilon, float weight_decay);

/**
 * AdaGrad-norm over SGD: the step is divided by the root of `initial` (b_0^2, not negative) and all squared norms of
 * released gradients, each at least `floor` (above 0), less the noise's known share if `subtract_noise` is not 0.
 * SGD's numbers and vectors as in `damper_choose_sgd`.
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
 * Lets the learning rate and the noise change from step to step as declared here; ADP is `POLYNOMIAL` with `MATCHED`.
 * The noise is priced as a whole: see `damper_epsilon`. As in the configuration, 32 bits must hold the sums, with the
 * last step's noise too, and no step's noise may be too coarse.
 */
DAMPER_MUST_USE
damper_status damper_choose_schedule(damper_run *run, const damper_schedule *schedule);

/**
 * DC-SGD-P: the clip that leaves about `fraction` of the samples unclipped, from a histogram of norms released with
 * noise of `count_noise` counts (0.25 to 2^18; it is priced with the gradient's). The first step has the clip
 * `first_clip` and a histogram over [0, `first_range`). `clips`, which may be null, bounds the clip. The
 * configuration's clip has no part in it.
 */
DAMPER_MUST_USE
damper_status damper_choose_percentile(damper_run *run,
                                       double fraction,
                                       double count_noise,
                                       float first_clip,
                                       float first_range,
                                       const damper_interval *clips);

/**
 * DC-SGD-E: the clip that minimises the expected error, else as `damper_choose_percentile`. It is sought on the
 * paper's grid, or, if `exact` is not 0, in closed form. `ranges`, which may be null, bounds the histogram's range.
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
 * Adaptive clipping (Andrew et al.): the clip follows the `quantile` of the norms at rate `rate`, with noise of
 * `sigma_b` on the number of unclipped samples; `2·sigma_b` is what is priced with the gradient's. Else as
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
 * Copies the key of a private run, the 32 bytes at `key`: true randomness for this run alone: after a restart the
 * same, for the ledger's numbers say which of its noise was used. It is as secret as the data. `damper_run_close`
 * wipes the run's copy. The bytes at `key` stay as they are: erasing them is up to the caller.
 */
DAMPER_MUST_USE
damper_status damper_set_key(damper_run *run, const uint8_t *key);

/**
 * Makes the run a simulation: the seed is known, so nothing that it releases is private.
 */
DAMPER_MUST_USE
damper_status damper_set_simulation_seed(damper_run *run, uint64_t seed);

/**
 * Writes 1 where the run has a key, and 0 where it is a simulation.
 */
DAMPER_MUST_USE
damper_status damper_is_private(const damper_run *run, uint32_t *is_private);

/**
 * Persists the ledger by `persist`, which is given `context`, before each step that is not reserved.
 */
DAMPER_MUST_USE
damper_status damper_set_store(damper_run *run, damper_persist persist, void *context);

/**
 * Forgets the ledger at a restart, which then releases the same steps again: for simulations and tests alone.
 */
DAMPER_MUST_USE
damper_status damper_set_volatile_store(damper_run *run);

/**
 * Goes on after a restart from the record that the store holds: steps that were charged and not released are burned. What
 * is reserved comes after it. `damper_run_start` answers `DAMPER_STATUS_CONFIGURATION` where the record's fingerprint is of another configuration.
 * `DAMPER_STATUS_RECORD` where the record's budget is not the configuration's, or it is a Renyi
 * filter's: that takes it where it is chosen.
 */
DAMPER_MUST_USE
damper_status damper_resume(damper_run *run,
                            const damper_record *record);

/**
 * Charges `steps` (at least 1) at a time, to write less often; a restart burns what was reserved. After `damper_resume`.
 */
DAMPER_MUST_USE
damper_status damper_reserve_steps(damper_run *run,
                                   uint32_t steps);

/**
 * Writes the budget and the steps charged and taken so far, which is the number of the next step; of a Renyi filter also what it
 * spent.
 */
DAMPER_MUST_USE
damper_status damper_charged_steps(const damper_run *run,
                                   damper_record *record);

/**
 * Bytes of memory that a journal needs, aligned to 8.
 */
size_t damper_journal_size(void);

/**
 * The bytes that the journal erases at once, as the library was built: see `damper_flash`.
 */
size_t damper_journal_erase_size(void);

/**
 * Begins a journal with nothing charged, in a region that the caller has erased, in `size` bytes at `memory`. Once in the life of a
 * run: in the factory, or by an act of whoever owns the device, and **never because `damper_journal_open` failed**. A region that
 * was erased after charges looks like a new one, and a new journal would forget them. `first_boot` is `DAMPER_FIRST_BOOT`: a constant
 * that no other value is by accident.
 *
 * `DAMPER_STATUS_OCCUPIED` where the region is not erased; `DAMPER_STATUS_GEOMETRY` where sizes do not fit; `DAMPER_STATUS_RANGE` where
 * `first_boot` is another number.
 */
DAMPER_MUST_USE
damper_status damper_journal_provision(void *memory,
                                       size_t size,
                                       const damper_flash *flash,
                                       const damper_journal_run *run,
                                       uint32_t first_boot,
                                       damper_journal **journal);

/**
 * Opens the journal of a run after a restart, in `size` bytes at `memory`. Then read its record by `damper_journal_record`, and give it to
 * `damper_resume`, or to the choice of a Renyi filter.
 *
 * Where this fails, nothing may be released: `DAMPER_STATUS_BLANK` where there is no journal (the device was not provisioned, or its
 * flash was erased), `DAMPER_STATUS_DAMAGED` where charges may be missing (`damper_journal_recover` goes on), `DAMPER_STATUS_CONFIGURATION` where
 * it is another configuration's, or an earlier version's. Nothing is erased.
 */
DAMPER_MUST_USE
damper_status damper_journal_open(void *memory,
                                  size_t size,
                                  const damper_flash *flash,
                                  const damper_journal_run *run,
                                  damper_journal **journal);

/**
 * As `damper_journal_open`; a damaged journal opens as if every charge that the damage may hide had taken `most_steps` (the most that
 * `damper_reserve_steps` was given, else 1) and, of a Renyi filter, `most_divergence`. It over-counts, and never under-counts if no charge took
 * more. With `UINT32_MAX` steps the whole budget counts as charged. By an act of whoever owns the device.
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
 * Writes the newest record that the journal holds.
 */
DAMPER_MUST_USE
damper_status damper_journal_record(const damper_journal *journal, damper_record *record);

/**
 * Persists a record: the callback for `damper_set_store`, with the journal as its context. Returns 0 when the record would survive a
 * power cut, else a status.
 */
int damper_journal_persist(void *journal,
                           const damper_record *record);

/**
 * Ends the use of a journal and wipes its memory. The flash keeps what was persisted.
 */
DAMPER_MUST_USE
damper_status damper_journal_close(damper_journal *journal);

/**
 * Charges a step, persists the charge, and opens the step; writes its number, counted from 0 over all restarts.
 * Without a durable charge nothing is opened.
 *
 * `DAMPER_STATUS_BUDGET_SPENT` at the end of training; `DAMPER_STATUS_NOT_PERSISTED` where the store failed: the step
 * is burned, the next may be tried.
 */
DAMPER_MUST_USE
damper_status damper_step_open(damper_run *run, uint32_t *number);

/**
 * Begins the draw of the open step, as the configuration says: each of `0..samples` with probability `sampling_rate / 2^53`, by a coin
 * of its own. A step of `damper_step_open_adaptive` is drawn at the rate that it was charged. One draw a step.
 *
 * `DAMPER_STATUS_RANGE` where the configuration has no samples.
 */
DAMPER_MUST_USE
damper_status damper_batch_begin(damper_run *run);

/**
 * Writes the index of the next sample that is drawn, ascending; `DAMPER_STATUS_END` after the last.
 */
DAMPER_MUST_USE
damper_status damper_batch_next(damper_run *run, uint32_t *index);

/**
 * Adds one sample to the open step: its gradient (`[dim]`) at the one point where it is wanted, or mixed by the caller
 * (see `damper_eval_point`). It is clipped, rounded to the grid and summed. A gradient whose squared norm is not a finite
 * `float` adds exactly nothing.
 */
DAMPER_MUST_USE
damper_status damper_add(damper_run *run,
                         const float *grad,
                         size_t len);

/**
 * As `damper_add`, of a gradient in `count` consecutive segments, at most `DAMPER_MAX_SEGMENTS`: one of each tensor, say.
 */
DAMPER_MUST_USE
damper_status damper_add_segments(damper_run *run,
                                  const damper_segment *segments,
                                  size_t count);

/**
 * Writes at how many points each sample's gradient is wanted in the open step.
 */
DAMPER_MUST_USE
damper_status damper_eval_points(const damper_run *run, size_t *points);

/**
 * Writes point `index` (`[dim]`) to `point` and the weight of the gradients taken there to `weight`. Whoever mixes
 * elsewhere computes `u = w_0·g_0`, then `u = u + w_j·g_j` in order, each operation rounded by itself, and adds `u` by
 * `damper_add`.
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
 * Takes 1 vector, in which `damper_combine_…` mixes the gradients of a sample at several points. Before
 * `damper_run_start`.
 */
DAMPER_MUST_USE
damper_status damper_reserve_combining(damper_run *run);

/**
 * Begins a sample whose gradients come point by point; one that was begun and not ended adds nothing.
 */
DAMPER_MUST_USE
damper_status damper_combine_begin(damper_run *run);

/**
 * Writes where the sample's next gradient is wanted (`[dim]`) to `point`; `DAMPER_STATUS_END` when there are no more
 * points.
 */
DAMPER_MUST_USE
damper_status damper_combine_eval_point(damper_run *run,
                                        const float *params,
                                        size_t params_len,
                                        float *point,
                                        size_t point_len);

/**
 * Mixes in the sample's gradient (`[dim]`) at the point that was written last.
 */
DAMPER_MUST_USE
damper_status damper_combine_add(damper_run *run, const float *grad, size_t len);

/**
 * As `damper_combine_add`, of a gradient in segments as in `damper_add_segments`.
 */
DAMPER_MUST_USE
damper_status damper_combine_add_segments(damper_run *run, const damper_segment *segments, size_t count);

/**
 * Ends the sample: clips the mixed gradient and adds it. `DAMPER_STATUS_ORDER` where a point is missing; nothing was
 * added.
 */
DAMPER_MUST_USE
damper_status damper_combine_end(damper_run *run);

/**
 * Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[dim]`); then releases
 * the counts, if the threshold has any, and lets it learn from them. The step is over. Where the call is refused, it
 * stays open.
 *
 * Parameters must be finite; they are released, and nothing else of the step is.
 */
DAMPER_MUST_USE
damper_status damper_step_finish(damper_run *run, float *params, size_t len);

/**
 * Gives the open step up: nothing is released, its sum is wiped, its charge stays.
 */
DAMPER_MUST_USE
damper_status damper_step_abandon(damper_run *run);

/**
 * Returns 1 if none of the next `len` numbers are wanted this time: then they must not be pushed. A producer need not ask.
 */
uint32_t damper_sink_skip(damper_sink *sink,
                          size_t len);

/**
 * Hands over the next `len` numbers of the gradient.
 */
void damper_sink_push(damper_sink *sink, const float *segment, size_t len);

/**
 * As `damper_add`, of a gradient that is not in memory: `produce` is asked for it several times. The sum has the same bits.
 * `DAMPER_STATUS_LENGTH` where it yields another number than `[dim]`, and nothing was added.
 */
DAMPER_MUST_USE
damper_status damper_add_streamed(damper_run *run,
                                  damper_produce produce,
                                  void *context);

/**
 * Writes the gradient that `produce` yields to `grad`. `DAMPER_STATUS_LENGTH` where it yields another number than `len`.
 */
DAMPER_MUST_USE
damper_status damper_store_streamed(damper_produce produce,
                                    void *context,
                                    float *grad,
                                    size_t len);

/**
 * Bytes of memory that a shard over `dim` parameters needs, aligned as a run's. 0 where no memory is that large.
 */
size_t damper_shard_size(size_t dim);

/**
 * Makes a shard of the open step in `size` bytes at `memory`: samples that are added to it count when it is merged. Another thread
 * may add to it while this one goes on with the run: only opening and merging it touches both. Samples are clipped as in
 * the run, and in whatever order and number of shards they are added, the step has the same bits.
 *
 * It must be merged or closed before its run is closed. Once the step is over it can only be closed.
 */
DAMPER_MUST_USE
damper_status damper_shard_open(damper_run *run,
                                void *memory,
                                size_t size,
                                damper_shard **shard);

/**
 * Adds one sample to a shard, as `damper_add` does to the step.
 */
DAMPER_MUST_USE
damper_status damper_shard_add(damper_shard *shard, const float *grad, size_t len);

/**
 * As `damper_shard_add`, of a gradient in segments as in `damper_add_segments`.
 */
DAMPER_MUST_USE
damper_status damper_shard_add_segments(damper_shard *shard, const damper_segment *segments, size_t count);

/**
 * Adds what a shard has added up to the open step of the run it was opened for, and ends it: its memory is wiped.
 * `DAMPER_STATUS_ORDER` where it is another step's or another run's; then it is as it was.
 */
DAMPER_MUST_USE
damper_status damper_shard_merge(damper_run *run, damper_shard *shard);

/**
 * Ends a shard, which adds nothing, and wipes its memory.
 */
DAMPER_MUST_USE
damper_status damper_shard_close(damper_shard *shard);

/**
 * Lets a Rényi filter pay for the run's steps in the place of its ledger: the run stays within (`epsilon`, `delta`) by the
 * divergence of the whole `order` (2 to 1024), whatever noise is chosen from what was released. The configuration's budget
 * must be 0. Takes `DAMPER_RENYI_FILTER_BYTES`. After a restart `record` is what the store holds; null where nothing was spent. `DAMPER_STATUS_RECORD` where the
 * record is a ledger's, or of another order.
 *
 * Which order is best follows from the run as planned; a small one does not show a small ε (`DAMPER_STATUS_RANGE`).
 */
DAMPER_MUST_USE
damper_status damper_choose_renyi_filter(damper_run *run,
                                         uint32_t order,
                                         double epsilon,
                                         double delta,
                                         const damper_record *record);

/**
 * Writes 1 where the filter would pay for a step with noise of `factor` times the configuration's at this sampling rate, in units
 * of 2^-53, and 0 where it would not. Choose both from what was released and from constants.
 */
DAMPER_MUST_USE
damper_status damper_fits_budget(const damper_run *run,
                                 double factor,
                                 uint64_t rate,
                                 uint32_t *admits);

/**
 * As `damper_step_open`, of a step with noise of `factor` times the configuration's, that is drawn at this rate: the filter is charged,
 * or answers `DAMPER_STATUS_BUDGET_SPENT`, and a step with more noise may be tried. Its number is counted from 2^31; the schedule's
 * noise has no part in it. `damper_batch_begin` draws at this rate.
 */
DAMPER_MUST_USE
damper_status damper_step_open_adaptive(damper_run *run,
                                        double factor,
                                        uint64_t rate,
                                        uint32_t *number);

/**
 * Writes how many bytes `damper_state_save` writes. Between steps of a started run.
 */
DAMPER_MUST_USE
damper_status damper_state_size(const damper_run *run, size_t *size);

/**
 * Writes what filter, threshold and optimizer remember to `bytes`, of which there must be as many as `damper_state_size` says: keep
 * them beside the parameters, as of the same step. All of it was released, so it is no more secret than the parameters.
 */
DAMPER_MUST_USE
damper_status damper_state_save(const damper_run *run,
                                uint8_t *bytes,
                                size_t len);

/**
 * Takes back what `damper_state_save` wrote, in a run of the same configuration, started, with the record that its store holds.
 * `DAMPER_STATUS_DAMAGED` where the bytes are not those that were written; `DAMPER_STATUS_CONFIGURATION` where they are another
 * method's, or of another number of parameters; `DAMPER_STATUS_RECORD` where they were saved after more steps than are charged: the
 * record was put back. A checksum finds damage and authenticates nothing; what is forged costs accuracy and no privacy.
 */
DAMPER_MUST_USE
damper_status damper_state_restore(damper_run *run,
                                   const uint8_t *bytes,
                                   size_t len);

/**
 * Writes the largest sampling rate that is at most `expected_batch / dataset_size`, in units of 2^-53: the draw uses
 * exactly this rate, and it is what is priced. `DAMPER_STATUS_RANGE` where the batch is larger than the data set, or
 * that is empty.
 */
DAMPER_MUST_USE
damper_status damper_sampling_rate(uint64_t expected_batch, uint64_t dataset_size, uint64_t *rate);

/**
 * Writes ε at `delta` of the first `steps` steps of a started run at this sampling rate, gradients and counts
 * together, with the schedule's noise; infinity where nothing can be claimed. An upper bound. Neighbours: one sample
 * replaced by one that contributes nothing. `DAMPER_STATUS_RANGE` unless `0 < delta < 1` and `rate <=
 * DAMPER_SAMPLING_RATE_ONE`.
 *
 * Needs 2.1 KB of stack. Steps of equal noise that follow each other are priced once. With a noise
 * schedule it takes time in proportion to `steps`.
 */
DAMPER_MUST_USE
damper_status damper_epsilon(const damper_run *run, uint64_t rate, uint32_t steps, double delta, double *epsilon);

/**
 * As `damper_epsilon`, at whole orders alone: with three quarters of the flash and less stack. Never below it; for an
 * ε below 10, by measurement, within 3 % of it at multipliers from 1 on, within 10 % from 0.7 on, and up to a third
 * above at 0.5.
 */
DAMPER_MUST_USE
damper_status damper_epsilon_integer_orders(const damper_run *run,
                                            uint64_t rate,
                                            uint32_t steps,
                                            double delta,
                                            double *epsilon);

/**
 * `e^x`, the same bits on every target.
 */
float damper_exp(float x);

/**
 * The natural logarithm, the same bits on every target.
 */
float damper_ln(float x);

/**
 * The square root, correctly rounded.
 */
float damper_sqrt(float x);

/**
 * The number of the contract of bits: libraries with the same number give the same bits.
 */
uint32_t damper_bits_contract(void);

/**
 * Checks that this thread's arithmetic is that of IEEE 754: rounded to nearest, with subnormal numbers, and products not fused
 * with sums. Other modes give other bits. Call it at boot, and after code that may set the floating-point register (`FPSCR` on
 * Arm, `MXCSR` on x86-64). `DAMPER_STATUS_ARITHMETIC` if it differs: do not train.
 */
DAMPER_MUST_USE
damper_status damper_self_test(void);

#ifdef __cplusplus
}
#endif

#endif /* DAMPER_H */
