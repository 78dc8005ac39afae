//! Steps whose charge the caller persists, and steps that stay open while a program does other work.

use damper_core::accounting::RenyiFilter;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::prelude::*;
use damper_core::step::StepConfig as _;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const DP_SGD: DpSgd = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.5).momentum(0.9).expected_batch(4);
const GRAD: [f32; 3] = [0.5, -3.0, 0.1];

/// The parameters after `steps` steps of the blocking path.
fn blocking(steps: u32) -> [f32; 3] {
    let config = DP_SGD.build().unwrap();
    let (mut state, mut ledger, mut params) = (config.state::<3>(), Ledger::volatile(steps), [0.0; 3]);
    while let Some(mut step) = config.begin(&mut state, &mut ledger).unwrap() {
        step.add(&GRAD).unwrap();
        step.finish(&mut params, &NoiseRng::simulation(1)).unwrap();
    }
    params
}

#[test]
fn split_path_has_the_bits_of_open() {
    let config = DP_SGD.build().unwrap();
    let (mut state, mut ledger, mut params) = (config.state::<3>(), Ledger::resume((), 7, 0), [0.0; 3]);
    let mut durable = Record::NONE;
    for number in 0..7 {
        let due = config.prepare(&mut state, &mut ledger).unwrap();
        assert_eq!(due.step(), number);
        durable = due.record().unwrap();
        let fingerprint = config.fingerprint(3);
        assert_eq!(durable, Record { budget: 7, paid: number + 1, fingerprint, ..Record::NONE });
        let mut step = config.open_charged(&mut state, due.persisted()).unwrap();
        assert_eq!(step.number(), number);
        step.add(&GRAD).unwrap();
        step.finish(&mut params, &NoiseRng::simulation(1)).unwrap();
    }
    assert_eq!(config.prepare(&mut state, &mut ledger).unwrap_err(), OpenError::BudgetSpent);
    assert_eq!((params, durable.paid), (blocking(7), 7));
}

/// A record stays due until it is confirmed, and no number is used twice.
#[test]
fn reserve_is_used_after_it_is_confirmed() {
    let config = DP_SGD.build().unwrap();
    let mut state = config.state::<3>();
    let mut ledger = Ledger::resume((), 10, 0).with_reserve(4);
    let paid = |due: &Due| due.record().map(|record| record.paid);
    let lost = config.prepare(&mut state, &mut ledger).unwrap();
    assert_eq!((lost.step(), paid(&lost)), (0, Some(4)));
    drop(lost);
    for (number, record) in [(1, Some(5)), (2, None), (3, None), (4, None), (5, Some(9)), (6, None)] {
        let due = config.prepare(&mut state, &mut ledger).unwrap();
        assert_eq!((due.step(), paid(&due)), (number, record));
        let _ = due.persisted();
    }
}

#[test]
fn receipt_is_bound_to_the_noise() {
    let (loud, quiet) = (DP_SGD.noise_multiplier(2.0).build().unwrap(), DP_SGD.build().unwrap());
    let (mut state, mut ledger) = (loud.state::<3>(), Ledger::resume((), 3, 0));
    let due = loud.prepare(&mut state, &mut ledger).unwrap();
    let receipt = due.persisted();
    assert!(matches!(quiet.open_charged(&mut state, receipt), Err(CallError::Order(_))));
    // The step is lost: the next step has the next number.
    let due = loud.prepare(&mut state, &mut ledger).unwrap();
    assert_eq!(loud.open_charged(&mut state, due.persisted()).unwrap().number(), 1);
}

#[test]
fn split_path_of_adaptive_steps() {
    let config = DP_SGD.build().unwrap();
    let filter = || RenyiFilter::new(8, 8.0, 1e-5).unwrap();
    let (mut split, mut whole) = (filter(), filter());
    let (mut state, mut params) = ([config.state::<3>(), config.state::<3>()], [[0.0; 3]; 2]);
    let [one, other] = &mut state;
    for factor in [3.0, 4.0, 2.5] {
        let due = config.prepare_adaptive(one, factor, Rate::ONE, &mut split).unwrap();
        let record = due.record().unwrap();
        let step = config.open_charged(one, due.persisted()).unwrap();
        assert_eq!((record.paid, record.divergence), (split.charged_steps(), split.spent()));
        let number = step.number();
        step.finish(&mut params[0], &NoiseRng::simulation(1)).unwrap();
        let step = config.open_adaptive(other, factor, Rate::ONE, &mut whole, &mut Volatile).unwrap();
        assert_eq!(number, step.number());
        step.finish(&mut params[1], &NoiseRng::simulation(1)).unwrap();
    }
    assert_eq!((params[0], split), (params[1], whole));
    assert!(config.prepare_adaptive(one, f64::NAN, Rate::ONE, &mut filter()).is_err());
}

/// A σ below the least on B's grid has no privacy cost, for any charge.
#[test]
fn adaptive_receipt_checks_the_noise() {
    let (fine, coarse) = (DP_SGD.build().unwrap(), DP_SGD.build().unwrap());
    let slots = coarse.slots();
    let coarse = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(8).unwrap(), 1.0).unwrap(),
        ..*slots
    })
    .unwrap();
    let (mut state, mut filter) = (fine.state::<3>(), RenyiFilter::new(8, 8.0, 1e-5).unwrap());
    let due = fine.prepare_adaptive(&mut state, 1.0, Rate::ONE, &mut filter).unwrap();
    assert!(matches!(coarse.open_charged(&mut state, due.persisted()), Err(CallError::Order(_))));
}

/// A store with the newest record, like a journal.
#[derive(Debug)]
struct Newest(Record);

impl Store for Newest {
    type Error = ();

    fn persist(&mut self, record: Record) -> Result<(), ()> {
        let is_newer = record.paid > self.0.paid;
        self.0 = record;
        if is_newer { Ok(()) } else { Err(()) }
    }

    fn charged_steps(&self) -> u32 {
        self.0.paid
    }
}

impl ReadStore for Newest {
    fn record(&self) -> Record {
        self.0
    }
}

/// A ledger that begins below its store, and two ledgers on one store in turn.
#[test]
fn stale_ledgers_give_no_number_twice() {
    let ten = Record { budget: 100, paid: 10, ..Record::NONE };
    let mut stale = Ledger::resume(Newest(ten), 100, 3).with_reserve(8);
    assert_eq!((stale.charge(), stale.charge()), (Ok(10), Ok(11)));

    let mut first = Ledger::open(Newest(Record::NONE), 100).unwrap().with_reserve(4);
    let mut given = Vec::new();
    for _ in 0..5 {
        given.extend((0..3).map(|_| first.charge().unwrap()));
        let mut second = Ledger::open(first.store_mut(), 100).unwrap().with_reserve(4);
        given.extend((0..3).map(|_| second.charge().unwrap()));
    }
    let distinct: std::collections::HashSet<_> = given.iter().collect();
    assert_eq!(distinct.len(), given.len(), "{given:?}");
}

#[test]
fn filter_opens_its_own_record() {
    let record = |order| Record { budget: 0, paid: 3, divergence: 0.25, order, ..Record::NONE };
    let open = |store: &Newest| RenyiFilter::open(store, 8, 8.0, 1e-5);
    assert_eq!(open(&Newest(Record::NONE)).unwrap().charged_steps(), 0);
    assert_eq!(open(&Newest(record(8))).unwrap().spent(), 0.25);
    assert!(open(&Newest(record(16))).is_err());
    assert!(open(&Newest(Record { budget: 5, ..Record::NONE })).is_err());
}

/// The content of a resource or a task: a step without its configuration.
struct Device {
    step: Option<DpSgdStep<'static, 3>>,
    params: [f32; 3],
}

fn boot() -> Device {
    let config = DP_SGD.build().unwrap();
    let state: &'static mut DpSgdState<3> = Box::leak(Box::new(config.state()));
    let step = config.begin(state, &mut Ledger::volatile(1)).unwrap();
    Device { step, params: [0.0; 3] }
}

#[test]
fn open_step_is_kept_in_a_resource() {
    let mut device = boot();
    // In a later interrupt.
    device.step.as_mut().unwrap().add(&GRAD).unwrap();
    device.step.take().unwrap().finish(&mut device.params, &NoiseRng::simulation(1)).unwrap();
    assert_eq!(device.params, blocking(1));
}

/// Pending at the first poll, like a sensor or a flash.
async fn later<T>(value: T) -> T {
    let mut polled = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    value
}

async fn train(steps: u32) -> [f32; 3] {
    let config = DP_SGD.build().unwrap();
    let (mut state, mut ledger, mut params) = (config.state::<3>(), Ledger::resume((), steps, 0), [0.0; 3]);
    while let Ok(due) = config.prepare(&mut state, &mut ledger) {
        later(due.record()).await;
        let mut step = config.open_charged(&mut state, due.persisted()).unwrap();
        step.add(&later(GRAD).await).unwrap();
        step.finish(&mut params, &NoiseRng::simulation(1)).unwrap();
    }
    params
}

#[test]
fn open_step_lives_in_a_task() {
    let mut task = pin!(train(3));
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    let params = loop {
        polls += 1;
        if let Poll::Ready(params) = task.as_mut().poll(&mut context) {
            break params;
        }
    };
    assert_eq!((params, polls), (blocking(3), 7));
}

/// A filter with look-ahead needs gradients at other evaluation points.
#[test]
fn add_is_refused_where_points_differ() {
    use damper_core::filter::{Gain, Kalman, KalmanState, LookAhead};
    use damper_core::optimizer::SgdState;
    use damper_core::private::SumWord;
    let plain = DP_SGD.momentum(0.0).build().unwrap();
    let filter = Kalman::new(Gain::Constant(0.7), LookAhead::One).unwrap();
    let slots = plain.slots();
    let config = PrivateStep::new(Slots {
        filter,
        optimizer: slots.optimizer,
        mechanism: slots.mechanism,
        threshold: slots.threshold,
        clip: slots.clip,
        schedule: slots.schedule,
        expected_batch: 4,
    })
    .unwrap();
    let memory = KalmanState::new(&filter, [0.0; 3], [0.0; 3]);
    let mut state = StepState::new([SumWord::ZERO; 3], memory, SgdState { momentum: [] }, ());
    let mut step = config.open(&mut state, &mut Ledger::volatile(1)).unwrap();
    assert!(matches!(step.add(&GRAD), Err(CallError::Order(_))));
}
