//! Compares filters, optimizers and averages with those of `damper-core`.

use super::device;
use crate::{CudaDevice, DeviceFilter, DeviceMemory, DeviceOptimizer, DeviceParams, ThreadOrder};
use damper_access::NotPrivate;
use damper_core::average::{Average, Weight};
use damper_core::filter::{Filter, Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, SETS, Uncorrected};
use damper_core::optimizer::{
    AdaGrad, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Begin, Optimizer, RmsProp, RmsPropState, Sgd, SgdState,
};
use damper_core::private::Released;
use damper_core::state::{SaveState, StateField};
use damper_testing::Random;
use std::sync::Arc;

const DIM: usize = 1100;
const STEPS: u32 = 12;

/// Released mean: small values, and extreme finite floats.
fn released(step: u32, random: &mut Random) -> Vec<f32> {
    let sizes = [1e-3, 1.0, 1e-38, 3e38, 1e20, 0.0, f32::MAX, 1e-44];
    let size = |i: usize, step: u32| match (i % 5, step) {
        // Second moments below any epsilon.
        (0, _) => 1e-9,
        (_, ..2) => 0.1,
        _ => sizes[(i / 3 + step as usize) % sizes.len()],
    };
    let of = |x: f32, size: f32| if size == f32::MAX { size.copysign(x) } else { x * size };
    (0..DIM).map(|i| of(random.signed(), size(i, step))).collect()
}

/// Values of a state, in the order in which the state visits them.
fn values<E>(each: impl FnOnce(&mut dyn FnMut(StateField<'_>)) -> Result<(), E>) -> Vec<String> {
    let mut all = Vec::new();
    let taken = each(&mut |field| {
        all.push(match field {
            StateField::Floats(floats) => format!("{:x?}", floats.iter().map(|x| x.to_bits()).collect::<Vec<_>>()),
            StateField::Double(x) => format!("{:x}", x.to_bits()),
            other => format!("{other:?}"),
        });
    });
    assert!(taken.is_ok());
    all
}

/// Like [`values`], for the core.
fn values_of(state: &mut impl SaveState) -> Vec<String> {
    values(|take| {
        state.each(take);
        Ok::<(), ()>(())
    })
}

fn bits(all: &[impl AsRef<[f32]>]) -> Vec<Vec<u32>> {
    all.iter().map(|floats| floats.as_ref().iter().map(|x| x.to_bits()).collect()).collect()
}

/// Runs the same steps on both sides and compares parameters, states and mean after each.
fn compare<F, FS: SaveState, O, OS: SaveState>(
    device: &Arc<dyn CudaDevice>,
    (filter, mut filter_state): (F, FS),
    (optimizer, mut optimizer_state): (O, OS),
    on_device: (DeviceFilter, DeviceOptimizer),
) where
    F: Filter<FS>,
    O: Optimizer<OS>,
{
    let mut random = Random(5);
    let mut params: Vec<f32> = (0..DIM).map(|_| random.signed()).collect();
    let name = format!("{on_device:?}");
    let mut moved = DeviceParams::new(device, &params, on_device.0, on_device.1, true).unwrap();
    let mut average = Average::new(vec![0.0; DIM]);
    for step in 0..STEPS {
        let mut point = vec![f32::NAN; DIM];
        filter.eval_point(&filter_state, 0, &params, &mut point).unwrap();
        let mut point_there = vec![f32::NAN; DIM];
        moved.read_eval_point(&mut point_there).unwrap();
        assert_eq!(bits(&[point_there]), bits(&[point]), "{name}, step {step}");
        let grad = released(step, &mut random);
        let released = Released::not_private(&grad, NotPrivate::claim());
        let begin = Begin { lr: 0.1 / f64::from(step + 1), noise_std: 0.01 * f64::from(step + 1) };
        let (filter_step, optimizer_step) =
            (filter.begin(&mut filter_state), optimizer.begin(&mut optimizer_state, begin));
        let mut filtered = grad.clone();
        if !filter.is_identity() {
            filter.apply(filter_step, &mut filter_state, 0, &released, &mut filtered);
        }
        let filtered = Released::not_private(&filtered, NotPrivate::claim());
        filter.before_update(filter_step, &mut filter_state, 0, &params);
        optimizer.update(optimizer_step, &mut optimizer_state, 0, &mut params, &filtered, &released);
        filter.after_update(filter_step, &mut filter_state, 0, &params);
        let weight = Weight { weight: 1.5, keep: 0.9 };
        average.add(&params, weight).unwrap();

        let memory = DeviceMemory::floats(device, DIM).unwrap();
        memory.upload_floats(&grad).unwrap();
        moved.update_from(&memory, begin).unwrap();
        moved.add_to_average(weight).unwrap();
        let (mut there, mut mean) = (vec![f32::NAN; DIM], vec![f32::NAN; DIM]);
        moved.read_params(&mut there).unwrap();
        moved.read_average(&mut mean).unwrap();
        assert_eq!(bits(&[there, mean]), bits(&[&params[..], average.mean().unwrap()]), "{name}, step {step}");
        assert_eq!(values(|take| moved.each_filter_state(take)), values_of(&mut filter_state), "{name}, step {step}");
        assert_eq!(
            values(|take| moved.each_optimizer_state(take)),
            values_of(&mut optimizer_state),
            "{name}, step {step}"
        );
        assert_eq!(values(|take| moved.each_average_state(take)), values_of(&mut average), "{name}, step {step}");
    }
    assert!(params.iter().all(|x| x.is_finite()));
}

fn zeros() -> Vec<f32> {
    vec![0.0; DIM]
}

/// Checks each optimizer after one filter.
fn each_optimizer<F: Filter<FS>, FS: SaveState>(
    device: &Arc<dyn CudaDevice>,
    filter: impl Fn() -> (F, FS),
    on_device: &DeviceFilter,
) {
    for (momentum, nesterov, weight_decay) in
        [(0.0, false, 0.0), (0.0, false, 0.3), (0.9, false, 0.1), (0.5, true, 0.1)]
    {
        let sgd = (
            Sgd::new(momentum, nesterov, weight_decay).unwrap(),
            SgdState { momentum: if momentum == 0.0 { Vec::new() } else { zeros() } },
        );
        compare(device, filter(), sgd, (on_device.clone(), DeviceOptimizer::Sgd { momentum, nesterov, weight_decay }));
    }
    let (beta1, beta2, epsilon, weight_decay) = (0.9, 0.99, 1e-6, 0.2);
    let adam = Adam::new(beta1, beta2, epsilon, weight_decay).unwrap();
    let of = |filtered_second, floored| {
        (on_device.clone(), DeviceOptimizer::Adam { beta1, beta2, epsilon, weight_decay, filtered_second, floored })
    };
    compare(device, filter(), (adam, AdamState::new(zeros(), zeros())), of(false, false));
    compare(device, filter(), (adam.with_filtered_second_moment(), AdamState::new(zeros(), zeros())), of(true, false));
    compare(device, filter(), (adam.with_floored_denominator(), AdamState::new(zeros(), zeros())), of(false, true));
    let adam_bc = AdamBc::new(beta1, beta2, epsilon, weight_decay).unwrap();
    for (adam_bc, floor_by_noise) in [(adam_bc, false), (adam_bc.with_floor_by_noise(), true)] {
        let there = DeviceOptimizer::AdamBc { beta1, beta2, floor: epsilon, weight_decay, floor_by_noise };
        compare(device, filter(), (adam_bc, AdamBcState::new(zeros(), zeros())), (on_device.clone(), there));
    }
    let (alpha, weight_decay) = (0.95, 0.1);
    let rms_prop = RmsProp::new(alpha, epsilon, weight_decay).unwrap();
    let there = DeviceOptimizer::RmsProp { alpha, epsilon, weight_decay };
    compare(device, filter(), (rms_prop, RmsPropState { second: zeros() }), (on_device.clone(), there));
    let there = DeviceOptimizer::AdaGrad { epsilon, weight_decay };
    let ada_grad = AdaGrad::new(epsilon, weight_decay).unwrap();
    compare(device, filter(), (ada_grad, AdaGradState { sum: zeros() }), (on_device.clone(), there));
}

/// Checks all filters and optimizers.
pub(super) fn check(device: &Arc<dyn CudaDevice>) {
    each_optimizer(device, || (Identity, ()), &DeviceFilter::Identity);
    for (a, b) in SETS.iter().map(|set| (set.a, set.b)).chain([(&[-0.5, 0.0][..], &[0.2, 0.1, -0.05, 0.02, 0.0][..])]) {
        let iir = Iir::<8>::new(a, b).unwrap();
        let state = || IirState::new(vec![0.0; iir.order() * DIM]);
        let of = |is_corrected| DeviceFilter::Iir { a: a.to_vec(), b: b.to_vec(), is_corrected, capacity: 8 };
        let sgd = || (Sgd::new(0.0, false, 0.0).unwrap(), SgdState { momentum: Vec::<f32>::new() });
        let there = DeviceOptimizer::Sgd { momentum: 0.0, nesterov: false, weight_decay: 0.0 };
        compare(device, (iir.clone(), state()), sgd(), (of(true), there));
        compare(device, (Uncorrected(iir.clone()), state()), sgd(), (of(false), there));
    }
    for gain in [
        Gain::Constant(0.7),
        Gain::Constant(1.0),
        Gain::Recursion { noise: 2.0, drift: 0.5, process: 0.1 },
        Gain::Recursion { noise: 1.0, drift: 0.0, process: 0.0 },
    ] {
        let kalman = Kalman::new(gain, LookAhead::One).unwrap();
        let state = || (kalman, KalmanState::new(&kalman, zeros(), zeros()));
        each_optimizer(device, state, &DeviceFilter::Kalman(gain));
    }
    let set = SETS.iter().find(|set| set.name == "d2").unwrap();
    let iir = || (Iir::<8>::new(set.a, set.b).unwrap(), IirState::new(vec![0.0; 2 * DIM]));
    each_optimizer(
        device,
        iir,
        &DeviceFilter::Iir { a: set.a.to_vec(), b: set.b.to_vec(), is_corrected: true, capacity: 8 },
    );
}

#[test]
fn updates_have_the_bits_of_core() {
    if let Some(device) = device(ThreadOrder::Reversed) {
        check(&device);
    }
}

#[test]
fn updates_of_wrong_sizes_are_refused() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    let sgd = DeviceOptimizer::Sgd { momentum: 0.0, nesterov: false, weight_decay: 0.0 };
    let mut params = DeviceParams::new(&device, &[1.0, 2.0], DeviceFilter::Identity, sgd, false).unwrap();
    let begin = Begin { lr: 0.1, noise_std: 1.0 };
    assert!(params.update_from(&DeviceMemory::floats(&device, 3).unwrap(), begin).is_err());
    assert!(params.write_params(&[0.0; 3]).is_err());
    params.write_params(&[3.0, 4.0]).unwrap();
    let mut now = [0.0; 2];
    params.read_params(&mut now).unwrap();
    assert_eq!(now, [3.0, 4.0]);
    assert!(params.read_params(&mut [0.0; 3]).is_err() && params.read_average(&mut [0.0; 2]).is_err());
    assert!(params.add_to_average(Weight { weight: 1.0, keep: 1.0 }).is_err());
    let short = DeviceFilter::Iir { a: vec![-0.1, 0.1], b: vec![1.0], is_corrected: true, capacity: 1 };
    assert!(DeviceParams::new(&device, &[1.0], short, sgd, false).is_err());
    let mut params = DeviceParams::new(&device, &[1.0, 2.0], DeviceFilter::Identity, sgd, true).unwrap();
    assert!(params.read_average(&mut [0.0; 2]).is_err());
    assert!(params.add_to_average(Weight { weight: 0.0, keep: 1.0 }).is_err());
}
