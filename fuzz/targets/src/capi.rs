//! The C interface, called in any order with any numbers, lengths and states that its contract allows. A pointer that
//! is not null points to memory of the stated length.

use crate::fuzz_bytes::FuzzBytes;
use damper_fuzz_capi::accountant::{damper_epsilon, damper_epsilon_integer_orders, damper_sampling_rate};
use damper_fuzz_capi::adaptive::{damper_choose_renyi_filter, damper_fits_budget, damper_step_open_adaptive};
use damper_fuzz_capi::key::{damper_is_private, damper_set_key, damper_set_simulation_seed};
use damper_fuzz_capi::ledger::{
    Record, damper_charged_steps, damper_reserve_steps, damper_resume, damper_set_store, damper_set_volatile_store,
};
use damper_fuzz_capi::run::{
    Config, Run, damper_clip, damper_multiplier, damper_run_align, damper_run_close, damper_run_configure,
    damper_run_init, damper_run_size, damper_run_start,
};
use damper_fuzz_capi::shard::{
    Shard, damper_shard_add, damper_shard_close, damper_shard_merge, damper_shard_open, damper_shard_size,
};
use damper_fuzz_capi::slots::{clip, filter, optimizer, schedule, threshold};
use damper_fuzz_capi::snapshot::{damper_state_restore, damper_state_save, damper_state_size};
use damper_fuzz_capi::status::{Status, damper_status_message, damper_status_name};
use damper_fuzz_capi::step::{
    Segment, damper_add, damper_add_segments, damper_batch_begin, damper_batch_next, damper_combine_add,
    damper_combine_begin, damper_combine_end, damper_combine_eval_point, damper_eval_point, damper_eval_points,
    damper_reserve_combining, damper_step_abandon, damper_step_finish, damper_step_open,
};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// Elements of each buffer. Numbers of parameters are smaller.
const ELEMENTS: usize = 32;

/// A store that fails at every eighth charge.
unsafe extern "C" fn persist(context: *mut c_void, record: *const Record) -> c_int {
    // SAFETY: `context` is the counter that was passed with this function, and lives as long as the run. A record is
    // valid during the call.
    let (counter, record) = unsafe { (&mut *context.cast::<u64>(), *record) };
    assert!(record.paid > 0 && record.divergence >= 0.0);
    *counter += 1;
    c_int::from(counter.is_multiple_of(8))
}

/// A run in its own memory, and buffers to lend.
struct Machine {
    /// Aligned for any type.
    memory: Vec<MaybeUninit<u128>>,
    copy: Vec<MaybeUninit<u128>>,
    shards: Vec<MaybeUninit<u128>>,
    run: *mut Run,
    shard: *mut Shard,
    dim: usize,
    grad: [f32; ELEMENTS],
    params: [f32; ELEMENTS],
    point: [f32; ELEMENTS],
    saved: Vec<u8>,
    counter: Box<u64>,
    /// True if the noise has a schedule. The privacy cost then takes time proportional to the steps.
    has_schedule: bool,
}

impl Machine {
    fn new(dim: usize, vectors: usize, short: usize) -> Self {
        let size = damper_run_size(dim, vectors, 3);
        assert!(size > 0 && damper_run_align() <= align_of::<u128>());
        let mut memory = vec![MaybeUninit::uninit(); size.saturating_sub(short).div_ceil(16)];
        let mut run = null_mut();
        // SAFETY: memory of the stated length, and a variable for the result.
        let answer = unsafe { damper_run_init(memory.as_mut_ptr().cast(), 16 * memory.len(), dim, &raw mut run) };
        assert_eq!(answer == Status::Ok, !run.is_null());
        Self {
            copy: vec![MaybeUninit::uninit(); memory.len()],
            memory,
            shards: vec![MaybeUninit::uninit(); damper_shard_size(ELEMENTS).div_ceil(16)],
            run,
            shard: null_mut(),
            dim,
            grad: [0.0; ELEMENTS],
            params: [0.5; ELEMENTS],
            point: [0.0; ELEMENTS],
            saved: vec![0; 4096],
            counter: Box::new(0),
            has_schedule: false,
        }
    }

    /// Returns the run, or sometimes null, or a copy of the run.
    fn run(&mut self, source: &mut FuzzBytes<'_>) -> *mut Run {
        match source.u8() {
            0 => null_mut(),
            1 => {
                let copy: *mut Run = self.copy.as_mut_ptr().cast();
                // SAFETY: both have this many bytes, and do not overlap. Padding of a run is copied as uninitialised
                // bytes.
                unsafe {
                    let from = self.memory.as_ptr().cast::<MaybeUninit<u8>>();
                    from.copy_to_nonoverlapping(copy.cast(), 16 * self.memory.len());
                }
                copy
            }
            _ => self.run,
        }
    }

    /// Returns a length, which is mostly right.
    fn len(&self, source: &mut FuzzBytes<'_>) -> usize {
        if source.u8() < 16 { source.below(ELEMENTS + 1) } else { self.dim }
    }

    /// Returns memory to lend for reading: a gradient, null, or the run's own memory.
    fn lent(&self, source: &mut FuzzBytes<'_>) -> *const f32 {
        match source.u8() {
            0 => null(),
            1 => self.memory.as_ptr().cast(),
            2 => self.params.as_ptr(),
            _ => self.grad.as_ptr(),
        }
    }
}

/// Makes one call of a program.
fn call(machine: &mut Machine, source: &mut FuzzBytes<'_>) -> Status {
    let what = source.below(64);
    let run = machine.run(source);
    // If a run's memory is lent, it is at least as long as the longest buffer.
    let interval = threshold::Interval { min: source.f32(), max: source.f32() };
    let interval = if source.below(2) == 0 { null() } else { &raw const interval };
    let (mut integer, mut number, mut long, mut size) = (0u32, 0f64, 0u64, 0usize);
    let (mut float, mut record) = (0f32, Record { budget: 0, paid: 0, divergence: 0.0, order: 0, fingerprint: 0 });
    // SAFETY: every pointer is null, or points to memory that lives during the call and has the stated length. No other
    // code uses the run's memory. `counter` and the shard's memory, which the run keeps, live as long as the machine.
    unsafe {
        match what {
            0..4 => {
                let selector = source.u8();
                let grid_bits = if selector < 32 { source.u32() } else { 16 };
                let config = Config {
                    size: if selector == 1 { grid_bits as usize % 80 } else { size_of::<Config>() },
                    grid_bits,
                    expected_batch: if source.u8() < 32 { source.u32() } else { 4 },
                    noise_multiplier: if source.u8() < 32 { source.f64() } else { 1.0 },
                    learning_rate: if source.u8() < 32 { source.f64() } else { 0.1 },
                    clip: if source.u8() < 32 { source.f32() } else { 1.0 },
                    budget: if source.u8() < 32 { source.u32() } else { 50 },
                    samples: if selector == 2 { 0 } else { u32::from(source.u16() % 4096) },
                    sampling_rate: source.u64() >> (8 + source.u8() % 8),
                };
                damper_run_configure(run, &raw const config)
            }
            4..7 => damper_run_start(run),
            7 => damper_run_close(run),
            8 => damper_multiplier(run, &raw mut number),
            9 => damper_clip(run, &raw mut float),
            10 => clip::damper_choose_automatic_clip(run, source.f32()),
            11 => {
                let share = clip::damper_equal_share(2);
                let layers = [machine.dim / 2, machine.dim - machine.dim / 2, source.below(3)]
                    .map(|len| clip::EachLayer { len, share: if source.u8() < 16 { source.u32() } else { share } });
                clip::damper_choose_layers(run, layers.as_ptr(), source.below(4), source.f32())
            }
            12 | 13 => {
                let a: [f32; 10] = std::array::from_fn(|_| source.f64() as f32);
                let (a_len, b_len) = (source.below(10), source.below(10));
                if what == 12 {
                    filter::damper_choose_iir(run, a.as_ptr(), a_len, a[1..].as_ptr(), b_len)
                } else {
                    let iterates = source.below(10);
                    filter::damper_choose_dp_pmlf(run, iterates, source.f64(), a.as_ptr(), a_len, a.as_ptr(), b_len)
                }
            }
            14 => {
                let names = [c"p1", c"p4", c"d1", c"", c"none"];
                filter::damper_choose_named_filter(run, names[source.below(names.len())].as_ptr())
            }
            15 => filter::damper_choose_disk(run, source.f64(), source.f64()),
            16 => filter::damper_choose_disk_recursion(run, source.f64(), source.f64(), source.f64(), source.f64()),
            17 => filter::damper_choose_inner_momentum(run, source.below(10), source.f64()),
            18 => optimizer::damper_choose_sgd(run, source.f64() as f32, u32::from(source.u8() & 1), source.f32()),
            19 | 20 => {
                let choose = if what == 19 { optimizer::damper_choose_adam } else { optimizer::damper_choose_adam_bc };
                choose(run, source.f64(), source.f64(), source.f32(), source.f64(), u32::from(source.u8() & 1))
            }
            21 => optimizer::damper_choose_adagrad(run, source.f32(), source.f32()),
            22 => optimizer::damper_choose_rmsprop(run, source.f64(), source.f32(), source.f32()),
            23 => optimizer::damper_choose_adagrad_norm(
                run,
                source.f64(),
                source.f64(),
                u32::from(source.u8() & 1),
                source.f64() as f32,
                0,
                source.f32(),
            ),
            24 => {
                let schedule = schedule::Schedule {
                    size: size_of::<schedule::Schedule>(),
                    decay: u32::from(source.u8() % 7),
                    noise: u32::from(source.u8() % 5),
                    warmup: u32::from(source.u8() % 8),
                    steps: source.u32(),
                    factor: source.f64(),
                    offset: source.f64(),
                    slope: source.f64(),
                    growth: source.f64(),
                    exponent: source.f64(),
                };
                machine.has_schedule = true;
                schedule::damper_choose_schedule(run, &raw const schedule)
            }
            25 => threshold::damper_choose_percentile(
                run,
                source.f64(),
                source.f64(),
                source.f32(),
                source.f32(),
                interval,
            ),
            26 => threshold::damper_choose_expected_error(
                run,
                u32::from(source.u8() & 1),
                source.f64(),
                source.f64() as f32,
                source.f64() as f32,
                interval,
                null(),
            ),
            27 => threshold::damper_choose_quantile(
                run,
                source.f64(),
                source.f64(),
                source.f64(),
                source.f64() as f32,
                interval,
            ),
            28 => damper_set_key(run, machine.saved.as_ptr()),
            29 | 30 => damper_set_simulation_seed(run, source.u64()),
            31 => damper_is_private(run, &raw mut integer),
            32 => damper_set_store(run, Some(persist), (&raw mut *machine.counter).cast()),
            33 => damper_set_volatile_store(run),
            34 => {
                record = Record {
                    budget: if source.u8() < 64 { source.u32() } else { 50 },
                    paid: source.u32(),
                    divergence: source.f64(),
                    order: source.u32(),
                    fingerprint: if source.u8() < 200 { 0 } else { source.u64() },
                };
                damper_resume(run, &raw const record)
            }
            35 => damper_reserve_steps(run, source.u32()),
            36 => damper_charged_steps(run, &raw mut record),
            37..40 => damper_step_open(run, &raw mut integer),
            40 => damper_batch_begin(run),
            41 => damper_batch_next(run, &raw mut integer),
            42 | 43 => {
                let (grad, len) = (machine.lent(source), machine.len(source));
                damper_add(run, grad, len)
            }
            44 => {
                let segments: Vec<Segment> = (0..source.below(36))
                    .map(|_| Segment { data: machine.lent(source), len: source.below(machine.dim + 1) })
                    .collect();
                damper_add_segments(run, segments.as_ptr(), segments.len())
            }
            45 => damper_eval_points(run, &raw mut size),
            46 => {
                let (len, other) = (machine.len(source), machine.len(source));
                let (params, point) = (machine.params.as_ptr(), machine.point.as_mut_ptr());
                damper_eval_point(run, source.below(10), params, len, point, other, &raw mut float)
            }
            47 => damper_reserve_combining(run),
            48 => damper_combine_begin(run),
            49 => {
                let (len, other) = (machine.len(source), machine.len(source));
                damper_combine_eval_point(run, machine.params.as_ptr(), len, machine.point.as_mut_ptr(), other)
            }
            50 => {
                let (grad, len) = (machine.lent(source), machine.len(source));
                damper_combine_add(run, grad, len)
            }
            51 => damper_combine_end(run),
            52..55 => {
                let len = machine.len(source);
                damper_step_finish(run, machine.params.as_mut_ptr(), len)
            }
            55 => damper_step_abandon(run),
            56 => {
                let size = if source.u8() < 16 { source.below(256) } else { 16 * machine.shards.len() };
                let size = size.min(16 * machine.shards.len());
                damper_shard_open(run, machine.shards.as_mut_ptr().cast(), size, &raw mut machine.shard)
            }
            57 => {
                let (mut grad, len) = (machine.lent(source), machine.len(source));
                // A shard cannot detect its run's memory, so that must not be lent to it. It refuses its own.
                if grad == machine.memory.as_ptr().cast() {
                    grad = machine.shards.as_ptr().cast();
                }
                damper_shard_add(machine.shard, grad, len)
            }
            58 => damper_shard_merge(run, machine.shard),
            59 => damper_shard_close(machine.shard),
            60 => {
                let order = u32::from(source.u8());
                damper_choose_renyi_filter(run, order, source.f64(), source.f64(), null())
            }
            61 => {
                damper_fits_budget(run, source.f64(), source.u64(), &raw mut integer);
                damper_step_open_adaptive(run, source.f64(), source.u64() >> 10, &raw mut integer)
            }
            62 => {
                let found = damper_state_size(run, &raw mut size);
                if found != Status::Ok || size > machine.saved.len() {
                    return found;
                }
                let wrong = source.u8();
                if wrong < 16 {
                    size = source.below(256);
                } else {
                    damper_state_save(run, machine.saved.as_mut_ptr(), size);
                }
                if wrong.is_multiple_of(2) {
                    let at = usize::from(source.u16()) % machine.saved.len();
                    machine.saved[at] ^= source.u8();
                }
                damper_state_restore(run, machine.saved.as_ptr(), size)
            }
            _ => {
                damper_sampling_rate(source.u64(), source.u64(), &raw mut long);
                let (steps, delta) = (source.u32(), source.f64());
                let steps = if machine.has_schedule { steps % 50_000 } else { steps };
                let answer = damper_epsilon_integer_orders(run, long, steps, delta, &raw mut number);
                assert!(answer != Status::Ok || number >= 0.0, "{number}");
                let answer = damper_epsilon(run, long, steps, delta, &raw mut number);
                assert!(answer != Status::Ok || number >= 0.0, "{number}");
                answer
            }
        }
    }
}

fn is_named(status: Status) {
    assert!(!damper_status_name(status as i32).is_null() && !damper_status_message(status as i32).is_null());
}

/// Runs a program of calls.
pub fn capi(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let mut machine = Machine::new(source.below(ELEMENTS - 1) + 1, source.below(8), source.below(64) / 8 * 40);
    for grad in &mut machine.grad {
        *grad = source.f64() as f32;
    }
    if machine.run.is_null() {
        return;
    }
    for _ in 0..200 {
        if source.is_empty() {
            break;
        }
        is_named(call(&mut machine, source));
    }
    end(&mut machine);
}

/// Closes the run once, which must succeed after any calls.
fn end(machine: &mut Machine) {
    // SAFETY: the machine's own pointers, to live memory.
    unsafe {
        damper_shard_close(machine.shard);
        damper_run_close(machine.run);
        assert_eq!(damper_run_close(machine.run), Status::NotARun);
        damper_status_name(i32::MIN);
    }
    // SAFETY: closing wrote all of it.
    let wiped = machine.memory.iter().all(|word| unsafe { word.assume_init() } == 0);
    assert!(wiped, "what was in the run's memory was not wiped");
}

/// Tests saved states. A run that has memory of every kind restores any bytes, or refuses them, and continues.
pub fn state(bytes: &[u8]) {
    let source = &mut FuzzBytes(bytes);
    let method = source.below(6);
    let mut machine = Machine::new(5, 16, 0);
    let config = Config {
        size: size_of::<Config>(),
        grid_bits: 16,
        expected_batch: 4,
        noise_multiplier: 1.0,
        learning_rate: 0.1,
        clip: 1.0,
        budget: 20,
        samples: 0,
        sampling_rate: 0,
    };
    let run = machine.run;
    let ok = |status: Status| assert!(status == Status::Ok, "{}", status as i32);
    let (mut number, mut size) = (0, 0);
    // SAFETY: the machine's own run and buffers, with the stated lengths.
    unsafe {
        ok(damper_run_configure(run, &raw const config));
        match method {
            0 => {}
            1 => ok(filter::damper_choose_named_filter(run, c"p4".as_ptr())),
            2 => ok(filter::damper_choose_disk(run, 0.7, 0.5)),
            3 => ok(filter::damper_choose_inner_momentum(run, 3, 0.5)),
            4 => ok(threshold::damper_choose_expected_error(run, 0, 5.0, 1.0, 4.0, null(), null())),
            _ => ok(optimizer::damper_choose_adam(run, 0.9, 0.999, 1e-8, 0.0, 0)),
        }
        ok(damper_set_simulation_seed(run, 1));
        ok(damper_set_volatile_store(run));
        ok(damper_run_start(run));
        for _ in 0..2 {
            ok(damper_step_open(run, &raw mut number));
            ok(damper_step_finish(run, machine.params.as_mut_ptr(), 5));
        }
        ok(damper_state_size(run, &raw mut size));
        let mut saved = vec![0; size];
        ok(damper_state_save(run, saved.as_mut_ptr(), size));
        match source.below(3) {
            // Any bytes.
            0 => saved = source.0.to_vec(),
            // Some bytes changed, with the right digest at the end.
            1 => {
                while !source.is_empty() {
                    let at = source.below(size.clamp(1, 256));
                    saved[at] = source.u8();
                }
                if let Some((body, check)) = saved.split_last_chunk_mut::<8>() {
                    let mut digest = damper_core::numerics::digest::Digest::default();
                    digest.add_bytes(body);
                    *check = digest.value().to_le_bytes();
                }
            }
            // Truncated, or longer than the saved state.
            _ => saved.resize(usize::from(source.u16()) % 4096, source.u8()),
        }
        is_named(damper_state_restore(run, saved.as_ptr(), saved.len()));
        for _ in 0..2 {
            let opened = damper_step_open(run, &raw mut number);
            if opened == Status::Ok {
                is_named(damper_step_finish(run, machine.params.as_mut_ptr(), 5));
            }
        }
    }
    end(&mut machine);
}
