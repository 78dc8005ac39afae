//! Requirements of a device: every method in memory of fixed size, and the firmware example on an emulated board. The
//! latter needs QEMU and a toolchain for the board.

use damper_core::accounting::Ledger;
use damper_core::clip::{Automatic, Clip, FlatL2, Layer, Layers, PerLayer};
use damper_core::filter::{
    Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Optimizer, RmsProp,
    RmsPropState, Sgd, SgdState,
};
use damper_core::private::SumWord;
use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule};
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::{
    CountNoise, ExpectedError, ExpectedErrorState, Fixed, Percentile, PercentileState, Quantile, QuantileState, Solver,
    Threshold,
};
use std::path::Path;
use std::process::{Command, Stdio};

const TARGET: &str = "thumbv7em-none-eabihf";

/// The standard output of a command, if it can be started and succeeds.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cargo that builds for the board: a cross toolchain's `xcargo`, or rustup's with the target installed.
fn cargo() -> Option<&'static str> {
    if output("xcargo", &["--version"]).is_some() {
        return Some("xcargo");
    }
    output("rustup", &["target", "list", "--installed"])?.lines().any(|line| line == TARGET).then_some("cargo")
}

#[test]
fn the_board_says_what_the_host_says() {
    let Some(cargo) = cargo() else {
        damper_testing::skip("cross", format_args!("no toolchain for {TARGET}: rustup target add {TARGET}"));
        return;
    };
    if output("qemu-system-arm", &["--version"]).is_none() {
        damper_testing::skip("qemu", "there is no qemu-system-arm");
        return;
    }
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../firmware-examples");
    let manifest = firmware.join("Cargo.toml");
    let built = Command::new(cargo)
        .args(["build", "--locked", "--release", "-p", "damper-firmware-cortex-m", "--no-default-features"])
        .args(["--bin", "train", "--bin", "replay", "--target", TARGET, "--manifest-path"])
        .arg(&manifest)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "the firmware does not build");
    for (program, expected) in [("train", "expected/train.txt"), ("replay", "../replay/src/vectors/base.txt")] {
        let image = firmware.join("target").join(TARGET).join("release").join(program);
        let said = output(&firmware.join("cortex-m/qemu").to_string_lossy(), &[TARGET, &image.to_string_lossy()]);
        let expected = std::fs::read_to_string(firmware.join(expected)).unwrap();
        // The last line of `train` is the board's memory use.
        let lines = |text: &str| text.lines().filter(|line| !line.starts_with("board: ")).map(str::to_owned).collect();
        assert_eq!(said.as_deref().map(lines), Some::<Vec<_>>(lines(&expected)), "{program}");
    }
}

/// Parameters of the network on the device.
const D: usize = 100;

/// Vectors of `N` numbers: arrays on a device, `Vec` on a host.
trait Memory {
    type Of<const N: usize>: AsMut<[f32]> + AsRef<[f32]>;
    fn zeros<const N: usize>() -> Self::Of<N>;
}

struct Arrays;

impl Memory for Arrays {
    type Of<const N: usize> = [f32; N];
    fn zeros<const N: usize>() -> [f32; N] {
        [0.0; N]
    }
}

struct Vectors;

impl Memory for Vectors {
    type Of<const N: usize> = Vec<f32>;
    fn zeros<const N: usize>() -> Vec<f32> {
        vec![0.0; N]
    }
}

/// Bits of the parameters after a few steps, and the bytes of a run's state between steps.
type Trained = ([u32; D], usize);

/// Trains for a few steps, by evaluation point. All memory is in the arguments and on the stack.
fn train<C: Clip, T: Threshold, F: Filter<FS>, FS, O: Optimizer<OS>, OS>(
    clip: C,
    (threshold, threshold_state): (T, T::State),
    (filter, filter_state): (F, FS),
    (optimizer, optimizer_state): (O, OS),
) -> Trained {
    let learning_rate = LearningRate::new(0.02, 0, Decay::Constant).unwrap();
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 0.8).unwrap(),
        clip,
        threshold,
        filter,
        optimizer,
        schedule: Declared { learning_rate, noise: NoiseSchedule::Polynomial { growth: 0.1, exponent: 0.5 } },
        expected_batch: 4,
    })
    .unwrap();
    let mut state = StepState::new([SumWord::ZERO; D], filter_state, optimizer_state, threshold_state);
    let bytes = size_of_val(&state);
    let generator: ChaCha20 = ChaCha20::simulation(6);
    let (mut ledger, mut params, mut point, mut grad, mut mixed) =
        (Ledger::volatile(10), [0.1f32; D], [0f32; D], [0f32; D], [0f32; D]);
    for _ in 0..6 {
        let mut open = step.open(&mut state, &mut ledger).unwrap();
        for sample in 0..4 {
            let mut mixing = open.add_points(&mut mixed).unwrap();
            while mixing.next_eval_point(&params, &mut point).unwrap() {
                for ((grad, x), i) in grad.iter_mut().zip(point).zip(0u8..) {
                    // Not linear: for a linear gradient, two points give the same as one, up to rounding.
                    let distance = x - f32::from((i ^ sample) % 8) / 16.0;
                    *grad = distance + distance * distance;
                }
                mixing.eval_point(&[&grad]).unwrap();
            }
            mixing.add().unwrap();
        }
        open.finish(&mut params, &generator).unwrap();
    }
    (params.map(f32::to_bits), bytes)
}

/// DP-SGD with this filter.
fn filtered<F: Filter<FS>, FS>(filter: F, state: FS) -> Trained {
    let sgd = Sgd::new(0.0, false, 0.0).unwrap();
    train(FlatL2, (Fixed(1.0), ()), (filter, state), (sgd, SgdState { momentum: [0f32; 0] }))
}

/// DP-SGD with this clip rule and threshold.
fn clipped<C: Clip, T: Threshold>(clip: C, threshold: T, state: T::State) -> Trained {
    let sgd = Sgd::new(0.0, false, 0.0).unwrap();
    train(clip, (threshold, state), (Identity, ()), (sgd, SgdState { momentum: [0f32; 0] }))
}

/// This optimizer on unfiltered released gradients.
fn optimized<O: Optimizer<S>, S>(optimizer: O, state: S) -> Trained {
    train(FlatL2, (Fixed(1.0), ()), (Identity, ()), (optimizer, state))
}

/// Every method in memory of kind `M`, with the documented number of words per parameter, including the sum.
fn every_method<M: Memory>() -> [(&'static str, usize, Trained); 19] {
    let iir = |a: &[f32], b: &[f32]| Iir::<2>::new(a, b).unwrap();
    let momentum = PerSampleMomentum::<_, 4>::new(4, 0.9, iir(&[-0.9], &[0.15, -0.05])).unwrap();
    let disk = |look| Kalman::new(Gain::Constant(0.7), look).unwrap();
    let recursion = Kalman::new(Gain::Recursion { noise: 1.0, drift: 0.1, process: 0.05 }, LookAhead::One).unwrap();
    let kalman = |kalman: Kalman| filtered(kalman, KalmanState::new(&kalman, M::zeros::<D>(), M::zeros::<D>()));
    let noise = CountNoise::new(2.0).unwrap();
    let range = |solver| {
        let rule = ExpectedError::<20>::new(solver, noise).unwrap();
        clipped(FlatL2, rule, ExpectedErrorState::new(1.0, 4.0).unwrap())
    };
    let percentile = Percentile::<20>::new(0.5, noise).unwrap();
    let quantile = Quantile::new(0.5, 0.2, 0.5).unwrap();
    let layers = [Layer::equal(60, 2), Layer::equal(40, 2)];
    let layers = Layers::new(&layers).unwrap();
    let adam = |decay| {
        optimized(Adam::new(0.9, 0.999, 1e-8, decay).unwrap(), AdamState::new(M::zeros::<D>(), M::zeros::<D>()))
    };
    let sgd = |nesterov| Sgd::new(0.9, nesterov, 0.0).unwrap();
    let heavy = || SgdState { momentum: M::zeros::<D>() };
    [
        ("sgd", 1, filtered(Identity, ())),
        ("doppler", 3, filtered(iir(&[-1.8, 0.85], &[0.025, 0.025]), IirState::new(M::zeros::<{ 2 * D }>()))),
        (
            "dp-pmlf",
            5,
            filtered(
                momentum,
                PerSampleMomentumState::new(M::zeros::<{ 3 * D }>(), IirState::<_, 2>::new(M::zeros::<D>())),
            ),
        ),
        ("disk", 3, kalman(disk(LookAhead::One))),
        ("disk at two points", 3, kalman(disk(LookAhead::Two { gamma: -1.0 }))),
        ("disk by recursion", 3, kalman(recursion)),
        ("dc-sgd-p", 1, clipped(FlatL2, percentile, PercentileState::new(1.0, 2.0).unwrap())),
        ("dc-sgd-e", 1, range(Solver::PaperGrid)),
        ("dc-sgd-e in closed form", 1, range(Solver::Exact)),
        ("adaptive clipping", 1, clipped(FlatL2, quantile, QuantileState::new(1.0).unwrap())),
        ("automatic clipping", 1, clipped(Automatic::new(0.01).unwrap(), Fixed(1.0), ())),
        ("per-layer clipping", 1, clipped(PerLayer::new(FlatL2, layers).unwrap(), Fixed(1.0), ())),
        ("momentum", 2, optimized(sgd(false), heavy())),
        ("nesterov", 2, optimized(sgd(true), heavy())),
        ("adamw", 3, adam(0.01)),
        (
            "dp-adambc",
            3,
            optimized(AdamBc::new(0.9, 0.999, 1e-8, 0.0).unwrap(), AdamBcState::new(M::zeros::<D>(), M::zeros::<D>())),
        ),
        ("adagrad", 2, optimized(AdaGrad::new(1e-10, 0.0).unwrap(), AdaGradState { sum: M::zeros::<D>() })),
        ("rmsprop", 2, optimized(RmsProp::new(0.99, 1e-8, 0.0).unwrap(), RmsPropState { second: M::zeros::<D>() })),
        (
            "adagrad-norm",
            2,
            optimized(AdaGradNorm::new(20.0, 1e-5, true, sgd(false)).unwrap(), AdaGradNormState::new(heavy())),
        ),
    ]
}

// Every method runs in the documented memory, with the same bits as with any other storage.
#[test]
fn methods_use_documented_memory() {
    let (device, host) = (every_method::<Arrays>(), every_method::<Vectors>());
    for ((name, words, (params, bytes)), (_, _, (expected, _))) in device.iter().zip(&host) {
        assert_eq!(params, expected, "{name}");
        let scalars = bytes - 4 * words * D;
        assert!(scalars <= 160, "{name}: {scalars} bytes beside {words} words a parameter");
    }
    for (i, (name, _, (params, _))) in device.iter().enumerate() {
        assert!(device[i + 1..].iter().all(|(_, _, (other, _))| other != params), "{name} is another method");
    }
}
