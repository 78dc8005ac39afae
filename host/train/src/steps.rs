//! The loop: draw, gradients, pay, release, again.

use super::checkpoint::{Checkpoint, Environment, Moment, Place, check_same, identity};
use super::choice::OptimizerState;
use super::dry_run::{check_result, of_gradients, rehearse_on};
use super::evaluate::{Evaluator, loss_unit};
use super::generator::{self, ChaCha20};
use super::group::{Alone, Group, RankError, agree};
use super::held_out::steps_between;
use super::non_finite::{NonFinite, first_samples, tell_first};
use super::non_finite_release::{self, Files};
use super::normalize_release::{constants, normalized};
use super::not_private;
use super::observe::{Given, Observer, Summed};
use super::odometer::Odometer;
use super::ranks::{Ranks, Taken};
use super::recording::{Beginning, Begun, Origin, Recording};
use super::rehearsal::{Independence, Rehearsed};
use super::sampler::BatchSampler;
use super::sharded_state::WholeState;
use super::space::check_room;
use super::step_loop::{self, Draw, State, StepLoop, Sum};
use super::store::{LedgerFile, RESERVE, RanksLedger};
use super::trained::Trained;
use super::tune::backend_of;
use super::watched::{GradientWatch, ThresholdWatch, Watched, WatchedState};
use super::weights::LARGEST;
use super::worker::{Accumulate, GradientObserver, Layout, Step};
use super::{Evaluation, Outcome, Progress, Resumed, Run, StepReport, TestMetrics, TrainError};
use crate::best::BestParams;
use damper_access::Unreleased;
use damper_accounting::{CorrelatedRun, Recorded, RecordedEvent};
use damper_budget::{EXACT, RunPlan, evaluations_until};
use damper_core::accounting::{Event, Ledger};
use damper_core::average::{Average, Averaging};
use damper_core::error::ConfigError;
use damper_core::slots::OptimizerSlot;
use damper_core::threshold::Threshold;
use damper_data::{Chunk, Split};
use damper_onnx::SettingError;
use damper_runtime::Backend;
use std::path::Path;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How often progress is told.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Warning of a network whose synthetic samples have no finite gradient.
const NONE_IS_FINITE: &str = "no made-up sample has a finite gradient at the model's initial weights, so steps may be noise alone; look for \
                              infinities in frozen weights, and for logarithms, roots and divisions in the model";

/// The files that a run writes as it goes, as secret as the data.
struct Written<'a> {
    /// The private folder, which rank 0 has.
    folder: Option<&'a Path>,
    plan: RunPlan,
    ledger: Ledger<RanksLedger<'a>>,
    /// The ledger of releases from held-out rows, which rank 0 makes.
    evaluations: Ledger<RanksLedger<'a>>,
    recording: Option<Recording>,
    /// The state to go on from after a stop, where it is kept; and where the steps begin.
    checkpoint: Option<&'a mut Checkpoint>,
    place: Place,
}

/// Trains. `folder` is a private folder that is there; the plan and the ledger are persisted in it, the plan before the first
/// step is charged and the ledger before each charge's first release. After a stop the run cannot go on.
///
/// # Errors
///
/// The backend is absent or fails, the ledger or the recording cannot be written, or the operating system gives no key.
pub fn run(run: &Run, folder: &Path, progress: &mut dyn Progress) -> Result<Outcome, TrainError> {
    observed(run, &Alone, Some(folder), None, progress, None)
}

/// [`run`], with its state in `checkpoint`, from which it begins and can go on after a stop. The private folder is that of the
/// checkpoint.
///
/// # Errors
///
/// As [`run`], or the state cannot be written or is damaged.
pub fn run_resumable(
    run: &Run,
    checkpoint: &mut Checkpoint,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    let folder = checkpoint.folder().to_path_buf();
    run_on(run, &Alone, Some(&folder), Some(checkpoint), progress)
}

/// [`run`] or [`run_resumable`] on the ranks of `group`, which end with the bits of one process. Rank 0 gives `folder`, its private folder,
/// and the `checkpoint` in it if the run has one; the others give none, and have the same parameters in the end. All ranks have prepared
/// the same run. A rank may hold a shard of the data alone ([`Run::keep_shard`]).
///
/// A step is released on a rank after rank 0 has written that it is charged. An error of one rank is one of all.
///
/// # Errors
///
/// As [`run`], on any rank; a rank's run, program, backend or processor is another than rank 0's; a rank has left; or the run cannot be
/// on ranks.
pub fn run_on(
    run: &Run,
    group: &dyn Group,
    folder: Option<&Path>,
    checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
) -> Result<Outcome, TrainError> {
    observed(run, group, folder, checkpoint, progress, None)
}

/// [`run`], seen from the inside.
pub fn observed(
    run: &Run,
    group: &dyn Group,
    folder: Option<&Path>,
    mut checkpoint: Option<&mut Checkpoint>,
    progress: &mut dyn Progress,
    mut observer: Option<&mut dyn Observer>,
) -> Result<Outcome, TrainError> {
    if group.size() > 1 {
        check_ranks(run)?;
    }
    if run.config.is_not_private() {
        let folder = folder.expect("a run without ranks has its folder");
        return not_private::train(run, folder, checkpoint, progress);
    }
    damper_core::self_test()?;
    let ranks = Ranks::new(group, run, run.threads())?;
    let own = checkpoint
        .as_ref()
        .map_or_else(|| generator::key(run.config.seed), |checkpoint| Ok(checkpoint.key()))
        .map(Some);
    let key = ranks.of_rank_0(own, |key| key.to_vec(), |bytes| bytes.try_into().ok().map(Zeroizing::new))?;
    let mut key = key.ok_or(RankError::Left)?;
    let origin = run.config.seed.map_or(Origin::Key(&key), Origin::Seed);
    let backend = agree(group, backend_of(run))?;
    progress.backend(&backend.note());
    let Rehearsed { independence, none_is_finite } = if run.config.normalize_private.is_some() {
        // Constants are charged before the steps are rehearsed.
        rehearse_on(run, backend.as_ref())?
    } else {
        let rehearsed = of_gradients(run, backend.as_ref())?;
        check_result(run)?;
        rehearsed
    };
    if none_is_finite {
        progress.warning(NONE_IS_FINITE);
    }
    if run.is_sharded() && independence != Independence::Tested {
        // Which samples share a batch depends on the shards.
        let problem = "on this backend a sample's gradient has other bits beside other samples, and shards change those; leave it out";
        return Err(SettingError::new("shard_data", "", problem).into());
    }
    let plan = run.run_plan()?;
    let steps = run.terms.steps;
    let environment = Environment::of(run, backend.as_ref(), run.threads());
    if group.size() > 1 {
        check_same(group, &agree(group, identity(run, &environment))?)?;
    }
    let place = match &mut checkpoint {
        None => Ok(Place { first: 0, charged: 0, lost: 0 }),
        Some(checkpoint) => checkpoint.place(environment, &plan),
    };
    let place = ranks.of_rank_0(place.map(Some), Place::bytes, Place::of_bytes)?.ok_or(RankError::Left)?;
    let file = folder.map(|folder| LedgerFile::new(folder, &plan, place.charged));
    let ledger = Ledger::resume(RanksLedger::new(file, group), steps, place.first).with_reserve(RESERVE);
    let releases = run.private_metrics.as_ref().map_or(0, |metrics| metrics.releases);
    let released = evaluations_until(place.first, steps, steps_between(&run.config, run.terms.rate)).min(releases);
    let file = folder.map(|folder| LedgerFile::of_held_out(folder, &plan));
    let evaluations = Ledger::resume(RanksLedger::new(file, &Alone), releases, released).with_reserve(releases);
    let begun = match &checkpoint {
        None => Beginning::New { kept: false },
        Some(checkpoint) => checkpoint.recorded(place),
    };
    let (recording, is_recorded) = match Recording::begin(run, origin, begun)? {
        Begun::Recording(recording) => {
            let is_recorded = recording.is_some();
            (recording, is_recorded)
        }
        Begun::Whole => (None, true),
        Begun::Lost(why, part) => {
            progress.unrecorded(why, part);
            (None, false)
        }
    };
    let generator = generator::generator(run.config.seed, &mut key);
    let watched = observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer);
    let normalize = constants(run, &ranks, folder, checkpoint.as_deref_mut(), &plan, &generator, watched)?;
    let normalized = normalize.as_ref().map(|constants| normalized(run, constants)).transpose()?;
    let run = normalized.as_ref().unwrap_or(run);
    let written = Written { folder, plan, ledger, evaluations, recording, checkpoint, place };
    let backend = backend.as_ref();
    let training = Training { run, ranks, generator: &generator, backend, written, progress, observer };
    Ok(Outcome { independence, is_recorded, normalize, ..step_loop::go(run, backend, training)? })
}

/// Refuses what several ranks would change the bits of, or what one of them does not see whole.
fn check_ranks(run: &Run) -> Result<(), TrainError> {
    let refused = |setting, value: &str, problem| Err(SettingError::new(setting, value, problem).into());
    if run.config.is_not_private() {
        return refused("not_private", "", "adds floats, whose sum depends on the ranks; run it in one process");
    }
    if run.clipped.is_some() {
        return refused("readout", "clipped-sum", "adds floats, whose sum depends on the ranks; leave it out");
    }
    if run.config.path() != EXACT {
        return refused(
            "noise",
            "continuous",
            "adds floats, whose sum depends on the ranks; use discrete, or one process",
        );
    }
    if run.config.record.is_some() {
        return refused(
            "record",
            "",
            "has the gradients of all samples, of which a rank has its own; record it in one process",
        );
    }
    Ok(())
}

/// Training, on its way to an outcome.
struct Training<'a, 'o> {
    run: &'a Run,
    ranks: Ranks<'a>,
    generator: &'a ChaCha20,
    backend: &'a dyn Backend,
    written: Written<'a>,
    progress: &'a mut dyn Progress,
    observer: Option<&'o mut dyn Observer>,
}

impl StepLoop for Training<'_, '_> {
    type End = Outcome;

    fn go<M, G>(self, mechanism: M, workers: G) -> Result<Outcome, TrainError>
    where
        M: Trained,
        G: Accumulate<M>,
        Sum: From<Vec<M::Word>>,
    {
        let Self { run, mut ranks, generator, backend, written, progress, observer } = self;
        train(run, mechanism, workers, &mut ranks, generator, backend, written, progress, observer)
    }
}

#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
fn train<M: Trained>(
    run: &Run,
    mechanism: M,
    mut workers: impl Accumulate<M>,
    ranks: &mut Ranks<'_>,
    generator: &ChaCha20,
    backend: &dyn Backend,
    mut written: Written<'_>,
    progress: &mut dyn Progress,
    mut observer: Option<&mut dyn Observer>,
) -> Result<Outcome, TrainError>
where
    Sum: From<Vec<M::Word>>,
{
    let config = &run.config;
    let layout = Layout::new(&run.grad);
    let layers = step_loop::layers(run);
    let Place { first, lost, .. } = written.place;
    // After a stop it is rebuilt from the key, also for steps that were lost: a burned row stays in later ones.
    let noise = mechanism.noise(layout.dim(), first, generator).map_err(|error| TrainError::Run(error.to_string()))?;
    let shard = ranks.shard().cloned();
    let coordinates = shard.as_ref().map(|shard| shard.own.len());
    let (step, mut state) = step_loop::step_of(run, mechanism, noise, &layers, coordinates, |optimizer, state| {
        (Watched(optimizer), WatchedState { inner: state, watch: None })
    })?;
    if observer.is_some() {
        let (_, shadow) = config.method.threshold.build(config.method.count_non_finite)?;
        state.optimizer.watch = Some(GradientWatch::new(run.params.len()));
        state.threshold.watch = Some(ThresholdWatch { counts: vec![], shadow });
    }
    let mut params = run.params.clone();
    let mut average = Average::new(vec![0.0; if config.average.is_some() { params.len() } else { 0 }]);
    let mut before = Moment::default();
    let mut lost_steps = 0;
    if let Some(saved) = ranks.saved(written.checkpoint.as_mut().and_then(|checkpoint| checkpoint.take_saved()))? {
        let restored = match &shard {
            None => saved.restore(&mut (&mut params[..], (&mut average, &mut state))),
            Some(shard) => {
                let state = WholeState::to_restore(&mut state, shard);
                saved.restore(&mut (&mut params[..], (&mut average, state)))
            }
        };
        let restored = restored.map_err(|error| match &written.checkpoint {
            Some(checkpoint) => checkpoint.damaged(error),
            None => TrainError::Run(format!("the state of rank 0: {error}")),
        });
        agree(ranks.group(), restored)?;
    }
    ranks.save(&mut params, &mut average, &mut state, |memory| {
        if let Some(folder) = written.folder {
            check_room(run, folder, written.checkpoint.is_some().then_some(&mut *memory))?;
        }
        match &mut written.checkpoint {
            Some(checkpoint) => checkpoint.go_on(written.place, memory),
            None => Ok(()),
        }
    })?;
    if let Some(checkpoint) = &written.checkpoint {
        before = checkpoint.moment();
        lost_steps = checkpoint.lost();
    }
    if first > 0 {
        ranks.tell(&mut before)?;
    }
    let mut evaluations = before.evaluations;

    let mut evaluator = match &run.data.test {
        _ if !ranks.leads() => None,
        Some(split) if config.test_metrics != TestMetrics::None => Some((Evaluator::new(backend, run, split)?, split)),
        _ => None,
    };

    let steps = run.terms.steps;
    let epoch_of = |step: u32| f64::from(step) * run.terms.rate.as_f64();
    let evaluate_every = steps_between(config, run.terms.rate);
    let is_evaluated = |done: u32| done == steps || evaluate_every.is_some_and(|every| done.is_multiple_of(every));
    let mut draws = BatchSampler::new(run, run.data.train.len() as u32);
    let mut draw = Draw::default();
    match run.data.train.held() {
        // The shards of the ranks are their shares.
        Some(held) => draws.limit(held.start as u32..held.end as u32),
        None => draw.take_share(ranks.share()),
    }
    let of_correlated = run.terms.correlated.as_ref().map(CorrelatedRun::event).transpose()?.map(|(event, _)| event);
    // What a step adds to the price: the event of the steps that it begins, such as a draw or an epoch.
    let event = |draws: &BatchSampler, at: u32| -> Result<Option<Event>, ConfigError> {
        let steps = draws.event(at);
        if of_correlated.is_some() {
            return Ok(steps.and(of_correlated));
        }
        let steps = steps.into_iter().flatten();
        let events = steps.map(|at| step.event_at(at, run.priced_rate())).collect::<Result<Vec<_>, _>>()?;
        Ok(events.into_iter().min_by(|a, b| a.multiplier().total_cmp(&b.multiplier())))
    };
    let mut spent = Odometer::new(run)?;
    for at in 0..first {
        spent.count(event(&draws, at)?);
    }
    (0..evaluations_until(first, steps, evaluate_every)).for_each(|_| spent.count_evaluation());
    if first > 0 {
        progress.resumed(&Resumed { step: first - lost, lost, evaluations: &evaluations });
    }
    let looked_at = first_samples(run);
    // Data of null samples alone, or none, leaves no chunk to look at.
    let found = match &*looked_at {
        [] => Ok(0),
        samples => {
            let first = [Chunk { index: 0, samples }];
            workers.count_non_finite(&run.data.train, &first, &params).map_err(TrainError::from)
        }
    };
    let found = agree(ranks.group(), found)?;
    if ranks.leads() && first == 0 {
        tell_first(found, looked_at.len(), progress);
    }
    let mut non_finite = NonFinite::begin(written.folder, first - lost);
    agree(ranks.group(), written.folder.map_or(Ok(()), |folder| written.plan.write(folder).map_err(TrainError::from)))?;
    let counted = non_finite_release::released(
        run,
        ranks,
        &mut workers,
        (&params, first),
        generator,
        Files { folder: written.folder, plan: &written.plan, checkpoint: written.checkpoint.as_deref_mut() },
        progress,
        observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer),
    )?;
    let started = Instant::now();
    let elapsed = || before.seconds + started.elapsed().as_secs_f64();
    let mut told = started;
    let mut stopped = false;
    let stalls = |evaluations: &[Evaluation]| {
        config.stop_early.is_some_and(|patience| Evaluation::has_stalled(evaluations, patience.get()))
    };
    // An early end may have been charged, and its outputs lost. What it charged beyond was not taken.
    let taken = first - lost;
    let mut ended_early = (taken < steps && stalls(&evaluations)).then_some(taken);
    if ended_early.is_some() {
        lost_steps -= lost;
    }
    let mut best = BestParams::begin(written.folder, &evaluations, params.len());
    // A stop may have lost all steps that were left.
    let last = match ended_early {
        Some(_) => first..first,
        None if first == steps && lost > 0 => first..first + 1,
        None => first + 1..steps + 1,
    };
    for done in last {
        if done > first {
            let (drawn, without) = one_step(
                run,
                &step,
                &mut state,
                &mut written,
                &mut workers,
                ranks,
                &mut draws,
                &mut draw,
                &mut params,
                generator,
                observer.as_mut().map(|observer| &mut **observer as &mut dyn Observer),
            )?;
            non_finite.add(drawn, without, progress);
            in_range(done, &params)?;
            spent.count(event(&draws, done - 1)?);

            let weigh = |averaging: Averaging| averaging.weight(done - 1, steps, run.terms.learning_rate.at(done - 1));
            if let Some(weight) = config.average.and_then(weigh) {
                average.add(&params, weight).expect("the mean has the parameters' length, and rates are finite");
            }
        }
        // A twentieth of the run is told, however fast it goes.
        let is_twentieth = u64::from(done) * 20 / u64::from(steps) > u64::from(done - 1) * 20 / u64::from(steps);
        if told.elapsed() >= TICK || is_twentieth {
            told = Instant::now();
            let seconds = elapsed();
            let at = StepReport {
                step: done,
                steps,
                seconds,
                samples_per_second: f64::from(done) * f64::from(config.batch_size) / seconds,
            };
            progress.step(&at, &mut |first| spent.of_first(first, |at| event(&draws, at)));
        }
        if is_evaluated(done) {
            let evaluated = average.mean().unwrap_or(&params);
            let mut figures = |(evaluator, split): &mut (Evaluator, &Split)| {
                Ok(match &run.private_metrics {
                    None => Some(evaluator.evaluate(split, &layout, evaluated)?),
                    // Its noise was used, or may have been, by a release that a stop has lost.
                    Some(_) if done == first => None,
                    Some(metrics) => {
                        let sums = evaluator.sums(split, &layout, evaluated, metrics.loss_bound)?;
                        let ledger = &mut written.evaluations;
                        let noisy = sums.release(metrics.noise, ledger, generator)?;
                        if let Some(observer) = &mut observer {
                            observer.evaluated(noisy);
                        }
                        spent.count_evaluation();
                        let (loss, accuracy) = metrics.figures(noisy, split.len());
                        Some((loss_unit(run) * loss, accuracy))
                    }
                })
            };
            let figures = evaluator.as_mut().map_or(Ok(None), &mut figures);
            let at = figures.map(|figures| {
                figures.map(|(loss, accuracy)| {
                    let epsilon = spent.of_first(done, |at| event(&draws, at));
                    Evaluation { step: done, epoch: epoch_of(done), epsilon, loss, accuracy }
                })
            });
            if let Some(at) = ranks.of_rank_0(at, Moment::one_to_bytes, Moment::one_of_bytes)? {
                progress.evaluated(&at);
                evaluations.push(at);
                if ranks.leads() {
                    best.keep(config, &evaluations, average.mean().unwrap_or(&params));
                }
                if !at.loss.is_finite() {
                    return Err(diverged(done, "the held-out loss is"));
                }
                ended_early = (done < steps && stalls(&evaluations)).then_some(done);
            }
        }
        let is_due = written.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_due());
        let is_stop = done < steps && ended_early.is_none() && progress.stop();
        let [is_stop, is_due] = ranks.any([is_stop, is_due])?;
        stopped = is_stop;
        if stopped || ended_early.is_some() || done == steps || is_due {
            let all = non_finite.with_counts(ranks.summed(non_finite.counts())?);
            if stopped || ended_early.is_some() || done == steps {
                all.tell(progress);
            }
            let mut write = |folder| all.write(folder).and_then(|()| best.write(folder));
            agree(ranks.group(), written.folder.map_or(Ok(()), &mut write))?;
            ranks.save(&mut params, &mut average, &mut state, |memory| {
                let Some(checkpoint) = &mut written.checkpoint else { return Ok(()) };
                let recorded = written.recording.as_mut().map_or(Ok(None), Recording::sync)?;
                Ok(checkpoint.save(done, elapsed(), &evaluations, recorded, memory)?)
            })?;
            if written.checkpoint.is_some() {
                progress.saved(done);
            }
        }
        if stopped {
            written.ledger.store_mut().settle(steps, done)?;
            break;
        }
        if ended_early.is_some() {
            break;
        }
    }
    if let Some(taken) = ended_early {
        // When it ends follows from what was released, and the price was fixed before: that of all steps.
        written.ledger.store_mut().settle(steps, steps)?;
        for at in taken.max(first)..steps {
            spent.count(event(&draws, at)?);
        }
        if let Some(metrics) = &run.private_metrics {
            let counted = evaluations_until(first, steps, evaluate_every).max(evaluations.len() as u32);
            (counted..metrics.releases).for_each(|_| spent.count_evaluation());
        }
    }
    if let Some(recording) = written.recording.filter(|_| !stopped) {
        recording.finish()?;
    }
    let mut last_iterate = None;
    let mut class_metrics = None;
    if let Some((evaluator, split)) = &mut evaluator
        && !stopped
        && config.test_metrics == TestMetrics::Exact
    {
        // Of the evaluation before, so it comes first.
        let found = evaluator.class_metrics(split, &layout, average.mean().unwrap_or(&params))?;
        class_metrics = found.map(|found| found.named(run.data.names.classes.as_deref()));
        last_iterate = evaluator.last_iterate(split, &layout, &params, average.mean())?;
    }
    let params = average.mean().map_or_else(|| params.clone(), <[f32]>::to_vec);
    Ok(Outcome {
        class_metrics,
        last_iterate,
        params,
        steps: if ended_early.is_some() { steps } else { written.ledger.charged_steps() },
        stopped,
        ended_early,
        best: ended_early.and_then(|_| best.of_early_end(&evaluations)),
        lost_steps,
        recorded: Recorded {
            run: Some(run.kind()),
            sampler: config.sampler,
            steps: (!config.sampler.has_event_each_step()).then_some(u64::from(steps)),
            correlation: run.terms.correlated.as_ref().map(Into::into),
            truncation: run.terms.truncation,
            held_out: spent.evaluations().iter().map(RecordedEvent::new).collect(),
            normalize: written.plan.events.normalize,
            non_finite: written.plan.events.non_finite,
            ..Recorded::new(config.accountant, config.delta, spent.events())
        },
        seconds: elapsed(),
        evaluations,
        independence: Independence::NotTested,
        is_recorded: false,
        normalize: None,
        non_finite: counted,
        backend: backend.name(),
        backend_version: backend.version(),
        operators: backend.operators(),
        ways: backend.ways(),
        workers: workers.count(),
        clip: step.slots().threshold.clip(&state.threshold),
    })
}

/// Checks what step `number` released. Optimizers saturate, so a parameter that diverges is large, not infinite.
pub(super) fn in_range(number: u32, params: &[f32]) -> Result<(), TrainError> {
    if params.iter().all(|x| x.abs() <= LARGEST) {
        return Ok(());
    }
    Err(diverged(number, "a released parameter is"))
}

pub(super) fn diverged(step: u32, what: &'static str) -> TrainError {
    TrainError::Diverged { step, what, limit: LARGEST }
}

/// Charges a step, draws its batch, spreads it over the workers, releases. `draw` is memory. Returns the samples that this rank added, and
/// those among them without a finite gradient, which are as secret as the data.
#[allow(clippy::too_many_arguments)] // One call, and each is a thing of its own.
fn one_step<M: Trained>(
    run: &Run,
    step: &Step<'_, M, Watched<OptimizerSlot>>,
    state: &mut State<M, WatchedState<OptimizerState>>,
    written: &mut Written<'_>,
    workers: &mut impl Accumulate<M>,
    ranks: &mut Ranks<'_>,
    draws: &mut BatchSampler,
    draw: &mut Draw,
    params: &mut [f32],
    generator: &ChaCha20,
    mut observer: Option<&mut dyn Observer>,
) -> Result<(usize, u32), TrainError>
where
    Sum: From<Vec<M::Word>>,
{
    let mut taken = match ranks.shard() {
        None => Taken::Whole(step.open(state, &mut written.ledger)?),
        Some(shard) => Taken::Block(step.open_block(state, &mut written.ledger, shard.own.clone())?),
    };
    let opened = taken.open();
    let split = &run.data.train;
    draws.draw(generator, opened.number(), &mut draw.samples);
    if let Some(recording) = &mut written.recording {
        recording.step(draw.counted(split));
    }
    let grad_observer = written.recording.as_mut().map(|recording| recording as &mut dyn GradientObserver);
    let added = draw.accumulate(run, opened, split, workers, params, generator, grad_observer);
    let without = opened.probe(Unreleased::claim()).non_finite;
    let drawn = match &added {
        Ok(added) if ranks.are_several() => *added,
        _ => draw.counted(split) as usize,
    };
    ranks.total(opened, added.map_err(TrainError::from))?;
    if let Some(observer) = &mut observer {
        let probe = opened.probe(Unreleased::claim());
        observer.summed(Summed {
            number: opened.number(),
            event: step_loop::event(run, step, opened.number())?,
            clip: opened.clip(),
            samples: &draw.samples,
            points: draw.points(),
            sum: Sum::from(probe.sum.to_vec()),
            query: probe.query,
            counts: probe.counts,
        });
    }
    ranks.finish(taken, workers, params, generator)?;
    let slots = step.slots();
    if let Some(recording) = &mut written.recording {
        recording.released(
            params,
            &state.filter,
            &state.optimizer.inner,
            (&slots.threshold.0, &state.threshold.inner),
        )?;
    }
    if let (Some(observer), Some(gradient), Some(threshold)) =
        (observer, &state.optimizer.watch, &state.threshold.watch)
    {
        observer.given(Given {
            grad: &gradient.released,
            noise_std: gradient.noise_std,
            counts: &threshold.counts,
            next_clip: slots.threshold.clip(&state.threshold),
            learned_clip: slots.threshold.0.clip(&threshold.shadow),
        });
    }
    Ok((drawn, without))
}
