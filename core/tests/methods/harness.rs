//! A run of a method through the public API.
//!
//! The slots of the optimizer and of the threshold record their inputs: the released and the filtered gradient, and the
//! counts.

use crate::erased::{Any, AnyOptimizer, AnyThreshold, FilterMemory, OptimizerMemory, ThresholdMemory};
use crate::method::{AnyClip, Method, filter_memory};
use damper_access::Unreleased;
use damper_core::accounting::{Ledger, Rate, Record, RenyiFilter, Store};
use damper_core::error::OpenError;
use damper_core::filter::mix;
use damper_core::grid::Word;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::private::SumWord;
use damper_core::schedule::Declared;
use damper_core::step::audit::ByRule;
use damper_core::step::{NoisePart, Open, PrivateStep, StepState};

/// One sample: its gradient at any evaluation point.
#[derive(Clone, PartialEq, Debug)]
pub enum Sample {
    /// The gradient of `Σ curvature·(d²/2 + d⁴/4)`, `d = x − centre`: not linear in the point.
    Bowl { curvature: Vec<f32>, centre: Vec<f32> },
    /// Fixed gradients for point 0, 1, …, independent of the parameters. The last is used for all further points.
    At(Vec<Vec<f32>>),
}

impl Sample {
    pub fn constant(grad: Vec<f32>) -> Self {
        Self::At(vec![grad])
    }

    fn grad(&self, index: usize, point: &[f32]) -> Vec<f32> {
        match self {
            Self::Bowl { curvature, centre } => point
                .iter()
                .zip(curvature)
                .zip(centre)
                .map(|((x, h), c)| h * ((x - c) + (x - c) * (x - c) * (x - c)))
                .collect(),
            Self::At(grads) => grads[index.min(grads.len() - 1)].clone(),
        }
    }
}

/// The way in which samples are added.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum How {
    /// By evaluation point.
    Points,
    /// By evaluation point. Each sample is begun, dropped, and begun again, and is added only after its last point.
    Interrupted,
    /// Combined outside, in two segments.
    Mixed,
    /// Combined outside, distributed over this many shards.
    Shards(usize),
}

/// A store that keeps the last record, counts writes, and fails on request.
#[derive(Default)]
pub struct Writes {
    pub last: Option<Record>,
    pub count: u32,
    pub fails: bool,
}

/// The record may or may not be durable.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lost;

impl Store for Writes {
    type Error = Lost;
    fn persist(&mut self, record: Record) -> Result<(), Lost> {
        if self.fails {
            return Err(Lost);
        }
        (self.last, self.count) = (Some(record), self.count + 1);
        Ok(())
    }
}

/// The outputs of one step, as its slots recorded them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Taken {
    pub number: u32,
    pub clip: f32,
    /// The requested evaluation points, with their weights.
    pub points: Vec<(f32, Vec<f32>)>,
    pub released: Vec<f32>,
    pub filtered: Vec<f32>,
    pub noise_std: f64,
    /// The learning rate that the (outermost) optimizer received.
    pub lr: f64,
    pub counts: Vec<f64>,
    /// Releases of the gradient and of the counts.
    pub releases: (u32, u32),
}

pub type Step<W> = PrivateStep<Any, AnyOptimizer, DiscreteGaussian<W>, AnyThreshold, ByRule<AnyClip>, Declared>;
type State<W> = StepState<Vec<SumWord<W>>, FilterMemory, OptimizerMemory, ThresholdMemory>;
type Opened<'a, W> = Open<'a, Step<W>, FilterMemory, OptimizerMemory>;

/// A run of a method: the state of a training program.
pub struct Run<W: Word> {
    pub step: Step<W>,
    state: State<W>,
    pub ledger: Ledger<Writes>,
    pub params: Vec<f32>,
    generator: ChaCha20,
}

impl Method {
    /// A run from the start, with a budget of `budget` steps.
    pub fn start<W: Word>(&self, budget: u32) -> Run<W> {
        self.resume(budget, 0, 1)
    }

    /// A run with fresh memory, after a restart at which `charged` steps were durable.
    pub fn resume<W: Word>(&self, budget: u32, charged: u32, reserve: u32) -> Run<W> {
        let ledger = Ledger::resume(Writes::default(), budget, charged).with_reserve(reserve);
        let state = StepState::new(
            vec![SumWord::default(); self.dim],
            filter_memory(&self.filter, self.dim),
            self.optimizer(),
            self.threshold().1,
        );
        let params = (0..self.dim).map(|i| (i % 7) as f32 / 8.0 - 0.25).collect();
        let generator = ChaCha20::simulation(self.seed);
        Run { step: self.step(), state, ledger, params, generator }
    }

    /// The released integers: sum and noise in grid units. Fails if a value is not on the declared grid.
    pub fn units(&self, taken: &Taken) -> Vec<i64> {
        let unit = taken.clip / (1u32 << self.bits) as f32 / self.expected_batch as f32;
        taken
            .released
            .iter()
            .map(|released| {
                let units = (f64::from(*released) / f64::from(unit)).round();
                assert!(units.abs() < f64::from(1 << 23), "too large to be told: {units}");
                assert_eq!((units as f32 * unit).to_bits(), (*released + 0.0).to_bits(), "not on the grid");
                units as i64
            })
            .collect()
    }
}

fn end<W: Word>(
    mut open: Opened<'_, W>,
    samples: &[Sample],
    how: How,
    params: &mut [f32],
    generator: &ChaCha20,
) -> Taken {
    let points: Vec<(f32, Vec<f32>)> = (0..open.eval_points())
        .map(|index| {
            let mut point = vec![f32::NAN; params.len()];
            (open.eval_point(index, params, &mut point).unwrap(), point)
        })
        .collect();
    let mixed = |sample: &Sample| {
        let mut mixed = vec![f32::NAN; params.len()];
        for (index, (weight, point)) in points.iter().enumerate() {
            mix(index, *weight, &[&sample.grad(index, point)], &mut mixed);
        }
        mixed
    };
    match how {
        How::Points => {
            let mut buffer = vec![f32::NAN; params.len()];
            for sample in samples {
                let mut mixing = open.add_points(&mut buffer).unwrap();
                let (mut index, mut point) = (0, vec![f32::NAN; params.len()]);
                while mixing.next_eval_point(params, &mut point).unwrap() {
                    assert_eq!(point, points[index].1);
                    mixing.eval_point(&[&sample.grad(index, &point)]).unwrap();
                    index += 1;
                }
                mixing.add().unwrap();
            }
        }
        How::Interrupted => {
            let mut buffer = vec![f32::NAN; params.len()];
            for sample in samples {
                for taken in 0..=points.len() {
                    let mut mixing = open.add_points(&mut buffer).unwrap();
                    for (index, (_, point)) in points.iter().enumerate().take(taken) {
                        mixing.eval_point(&[&sample.grad(index, point)]).unwrap();
                    }
                    assert!(taken < points.len() || mixing.eval_point(&[&sample.grad(0, &points[0].1)]).is_err());
                    if taken % 2 == 0 || taken == points.len() {
                        assert_eq!(mixing.add().is_ok(), taken == points.len());
                    }
                }
            }
        }
        How::Mixed => {
            for sample in samples {
                let mixed = mixed(sample);
                let (first, second) = mixed.split_at(params.len() / 3);
                open.add_combined(&[first, second]).unwrap();
            }
        }
        How::Shards(count) => {
            let mut memory = vec![vec![SumWord::default(); params.len()]; count];
            let mut shards: Vec<_> = memory.iter_mut().map(|sum| open.shard(sum).unwrap()).collect();
            for (i, sample) in samples.iter().enumerate() {
                shards[i % count].add_combined(&[&mixed(sample)]).unwrap();
            }
            while let Some(shard) = shards.pop() {
                open.merge(shard).unwrap();
            }
        }
    }
    let (number, clip) = (open.number(), open.clip());
    match how {
        // Others draw some parts of the noise, from the last to the first.
        How::Shards(count) => open
            .finish_on(params, generator, count, |parts| parts.iter_mut().rev().step_by(2).for_each(NoisePart::draw))
            .unwrap(),
        _ => open.finish(params, generator).unwrap(),
    }
    Taken { number, clip, points, ..Taken::default() }
}

impl<W: Word> Run<W> {
    /// Takes a step with these samples.
    pub fn take(&mut self, samples: &[Sample], how: How) -> Taken {
        self.try_take(samples, how).expect("the budget has room")
    }

    /// Takes a step with these samples if the ledger has room.
    pub fn try_take(&mut self, samples: &[Sample], how: How) -> Result<Taken, OpenError<Lost>> {
        let open = self.step.open(&mut self.state, &mut self.ledger)?;
        let taken = end(open, samples, how, &mut self.params, &self.generator);
        Ok(self.complete(taken))
    }

    /// Takes a step with `factor` times the noise if the filter has room.
    pub fn try_take_chosen(
        &mut self,
        samples: &[Sample],
        factor: f64,
        rate: Rate,
        filter: &mut RenyiFilter,
    ) -> Result<Taken, OpenError<Lost>> {
        let open = self.step.open_adaptive(&mut self.state, factor, rate, filter, self.ledger.store_mut())?;
        let taken = end(open, samples, How::Points, &mut self.params, &self.generator);
        Ok(self.complete(taken))
    }

    /// Charges a step without taking it, like a power cut.
    pub fn abandon(&mut self) -> bool {
        self.step.open(&mut self.state, &mut self.ledger).is_ok()
    }

    /// The number of evaluation points of the coming step.
    pub fn eval_points(&self) -> usize {
        self.state.filter.eval_points()
    }

    /// The clip of the coming step.
    pub fn clip(&self) -> f32 {
        self.state.threshold.clip()
    }

    /// Replaces the sum by one of another length.
    pub fn resize_sum(&mut self, len: usize) {
        self.state.sum_mut(Unreleased::claim()).resize(len, SumWord::default());
    }

    /// Returns true if all bits of the sum's memory are zero.
    pub fn sum_is_wiped(&self) -> bool {
        self.state.sum(Unreleased::claim()).iter().all(|word| word.get(Unreleased::claim()) == W::default())
    }

    fn complete(&mut self, mut taken: Taken) -> Taken {
        self.state.optimizer.write(&mut taken);
        self.state.threshold.write(&mut taken);
        taken
    }
}

pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}
