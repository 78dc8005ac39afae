//! A malicious host that keeps an enclave's sealed ledger. It loses blobs, returns old blobs, crashes the enclave at
//! every call, and runs it twice. It cannot forge a blob, or decrement the counter.

#[path = "enclave/host.rs"]
mod host;

use damper_core::accounting::{Ledger, Rate, Record, RenyiFilter, SampledGaussian, Store};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::DiscreteGaussian;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepConfig as _, StepState};
use damper_core::threshold::Fixed;
use damper_journal::{Allowance, Configuration, FirstBoot, SealedError, SealedJournal};
use host::Shared;
use proptest::prelude::*;
use std::collections::HashSet;

type Enclave = SealedJournal<Shared, Shared>;
type Step = PrivateStep;

fn step() -> Step {
    PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16).unwrap(), 1.0).unwrap(),
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(0.1),
        expected_batch: 4,
    })
    .unwrap()
}

fn state() -> StepState<[SumWord<i32>; 1], (), SgdState<[f32; 0]>> {
    StepState::new([SumWord::ZERO; 1], (), SgdState { momentum: [] }, ())
}

const BUDGET: u32 = 60;
const FACTORS: [f64; 3] = [4.0, 5.0, 8.0];

fn ledger_run() -> Configuration {
    Configuration::of_ledger(BUDGET, &step(), 1)
}

fn filter_run() -> Configuration {
    Configuration::of_filter(8, 12.0, 1e-5, &step(), 1)
}

fn dearest() -> f64 {
    damper_core::accounting::renyi::divergence_at_integer(&SampledGaussian::new(Rate::ONE, FACTORS[0]).unwrap(), 8)
}

/// The next action of the host.
#[derive(Clone, Debug)]
enum Act {
    /// Starts a fresh instance from one of the blobs.
    Open(usize),
    /// Lets an instance take steps.
    Steps(usize, u8),
    /// Crashes after this many calls.
    Crash(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => any::<usize>().prop_map(Act::Open),
        8 => (any::<usize>(), 0u8..12).prop_map(|(which, steps)| Act::Steps(which, steps)),
        1 => (0u32..9).prop_map(Act::Crash),
    ];
    prop::collection::vec(act, 1..60)
}

enum Instance {
    Steps(Ledger<Enclave>),
    Divergence(RenyiFilter, Enclave),
}

/// Runs the actions of the host and checks the releases: no number twice, and never more than the budget.
fn play(acts: &[Act], prepay: Option<u32>) -> Result<u32, TestCaseError> {
    let (run, allowance) = match prepay {
        Some(steps) => (ledger_run(), Allowance { steps, divergence: 0.0 }),
        None => (filter_run(), Allowance { steps: 1, divergence: dearest() }),
    };
    let host = Shared::default();
    host.0.borrow_mut().count = 17;
    Enclave::provision(host.clone(), host.clone(), run, allowance, FirstBoot::confirmed_by_owner()).unwrap();
    let (step, mut state) = (step(), state());
    let mut instances: Vec<Instance> = Vec::new();
    let (mut opened, mut spent) = (HashSet::new(), 0.0);
    for act in acts {
        match act {
            Act::Crash(calls) => host.0.borrow_mut().crash = Some(*calls),
            Act::Open(which) => {
                {
                    let host = &mut *host.0.borrow_mut();
                    // A crash stops every instance.
                    if host.crash == Some(0) {
                        instances.clear();
                    }
                    (host.crash, host.gives) = (None, Some(which % host.blobs.len()));
                }
                let store = Enclave::open(host.clone(), host.clone(), run, allowance);
                let store = store.map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
                let Record { paid, divergence, .. } = store.record();
                instances.push(match prepay {
                    Some(steps) => Instance::Steps(Ledger::open(store, BUDGET).unwrap().with_reserve(steps)),
                    None => {
                        let filter = RenyiFilter::resume(8, 12.0, 1e-5, paid, divergence);
                        Instance::Divergence(filter.unwrap(), store)
                    }
                });
            }
            Act::Steps(which, steps) => {
                let at = which % instances.len().max(1);
                let Some(instance) = instances.get_mut(at) else { continue };
                for _ in 0..*steps {
                    let (result, cost) = match instance {
                        Instance::Steps(ledger) => (step.open(&mut state, ledger), 0.0),
                        Instance::Divergence(filter, store) => {
                            let factor = FACTORS[opened.len() % FACTORS.len()];
                            let event = SampledGaussian::new(Rate::ONE, factor).unwrap();
                            let cost = damper_core::accounting::renyi::divergence_at_integer(&event, 8);
                            (step.open_adaptive(&mut state, factor, Rate::ONE, filter, store), cost)
                        }
                    };
                    if let Ok(open) = result {
                        prop_assert!(opened.insert(open.number()), "step {} twice", open.number());
                        spent += cost;
                    }
                }
            }
        }
    }
    prop_assert!(opened.len() as u32 <= BUDGET || prepay.is_none());
    prop_assert!(spent <= RenyiFilter::new(8, 12.0, 1e-5).unwrap().budget() * (1.0 + 1e-12));
    Ok(opened.len() as u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn no_host_gets_a_step_of_a_ledger_twice(acts in acts(), prepay in 1u32..7) {
        play(&acts, Some(prepay))?;
    }

    // No host gets more from a filter than its budget.
    #[test]
    fn filter_budget_holds_for_every_host(acts in acts()) {
        play(&acts, None)?;
    }
}

fn provisioned(prepay: u32) -> (Shared, Enclave) {
    let (host, allowance) = (Shared::default(), Allowance { steps: prepay, divergence: 0.0 });
    let store =
        Enclave::provision(host.clone(), host.clone(), ledger_run(), allowance, FirstBoot::confirmed_by_owner())
            .unwrap();
    (host, store)
}

fn open(host: &Shared, prepay: u32) -> Result<Enclave, SealedError<&'static str, &'static str>> {
    Enclave::open(host.clone(), host.clone(), ledger_run(), Allowance { steps: prepay, divergence: 0.0 })
}

fn record(paid: u32) -> Record {
    Record { budget: BUDGET, paid, divergence: 0.0, order: 0, fingerprint: step().fingerprint(1) }
}

// A crash at any call loses at most one charge, and training continues.
#[test]
fn crash_burns_at_most_one_charge() {
    let (step, mut state) = (step(), state());
    for prepay in [1, 4] {
        let allowance = Allowance { steps: prepay, divergence: 0.0 };
        for every in 1..40 {
            let host = Shared::default();
            Enclave::provision(host.clone(), host.clone(), ledger_run(), allowance, FirstBoot::confirmed_by_owner())
                .unwrap();
            let (mut opened, mut crashes, mut reported) = (HashSet::new(), 0, 0);
            loop {
                host.0.borrow_mut().crash = (crashes < 20).then_some(every);
                crashes += 1;
                let Ok(store) = open(&host, prepay) else { continue };
                let paid = store.record().paid;
                assert!(paid >= reported, "paid fell from {reported} to {paid}");
                reported = paid;
                let mut ledger = Ledger::open(store, BUDGET).unwrap().with_reserve(prepay);
                while let Ok(step) = step.open(&mut state, &mut ledger) {
                    assert!(opened.insert(step.number()));
                    reported = reported.max(step.number() + 1);
                }
                if ledger.charged_steps() >= BUDGET && host.0.borrow().crash != Some(0) {
                    break;
                }
            }
            assert!(opened.len() as u32 + crashes * prepay >= BUDGET, "{} released", opened.len());
        }
    }
}

#[test]
fn an_old_blob_buys_nothing() {
    let (host, mut store) = provisioned(1);
    (1..=10).for_each(|paid| store.persist(record(paid)).unwrap());
    for old in 0..=10 {
        host.0.borrow_mut().gives = Some(old);
        assert_eq!(open(&host, 1).unwrap().record().paid, 10, "from blob {old}");
    }
}

#[test]
fn of_two_instances_one_is_closed() {
    let (host, mut first) = provisioned(1);
    let mut second = open(&host, 1).unwrap();
    assert_eq!(first.persist(record(1)), Ok(()));
    assert_eq!(second.persist(record(1)), Err(SealedError::Forked));
    assert_eq!(second.persist(record(2)), Err(SealedError::Closed));
    // The second instance took a count without a blob. So the first no longer has the newest count, and a third is
    // charged for it.
    assert_eq!(first.persist(record(2)), Err(SealedError::Forked));
    assert_eq!(open(&host, 1).unwrap().record().paid, 3);
}

#[test]
fn what_is_not_this_ledger_is_refused() {
    let (host, mut store) = provisioned(2);
    for wrong in [Record { budget: BUDGET + 1, ..record(1) }, Record { fingerprint: 7, ..record(1) }] {
        assert_eq!(store.persist(wrong), Err(SealedError::OtherConfiguration));
    }
    assert_eq!(store.persist(record(3)), Err(SealedError::Allowance));
    assert_eq!(store.persist(record(2)), Ok(()));
    assert_eq!(store.persist(record(2)), Err(SealedError::Backwards));
    assert_eq!(open(&host, 3).unwrap_err_kind(), SealedError::OtherConfiguration);
    // A blob of the previous format.
    let newest = *host.0.borrow().blobs.last().unwrap();
    assert_eq!(newest[..4], *b"DJE2");
    let at = host.0.borrow().gives;
    let mut earlier = newest;
    earlier[3] = b'1';
    host.0.borrow_mut().blobs.push(earlier);
    host.0.borrow_mut().gives = at.map(|at| at + 1);
    assert_eq!(open(&host, 2).unwrap_err_kind(), SealedError::OtherConfiguration);
    host.0.borrow_mut().gives = at;
    host.0.borrow_mut().count = 0;
    assert_eq!(open(&host, 2).unwrap_err_kind(), SealedError::CounterBehind);
    let again = Enclave::provision(
        host.clone(),
        host.clone(),
        ledger_run(),
        Allowance { steps: 2, divergence: 0.0 },
        FirstBoot::confirmed_by_owner(),
    );
    assert_eq!(again.unwrap_err_kind(), SealedError::Occupied);
    host.0.borrow_mut().gives = None;
    assert_eq!(open(&host, 2).unwrap_err_kind(), SealedError::Blank);
}

trait Kind {
    fn unwrap_err_kind(self) -> SealedError<&'static str, &'static str>;
}

impl Kind for Result<Enclave, SealedError<&'static str, &'static str>> {
    fn unwrap_err_kind(self) -> SealedError<&'static str, &'static str> {
        self.err().expect("it opened")
    }
}
