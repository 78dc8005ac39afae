//! Self-test of the gradient graph on synthetic samples, before any sample is read. A runtime that computes gradients
//! wrong would silently train a wrong model.

mod difference;
mod made;

use crate::engine::worker::plan;
use damper_grad::GradGraph;
use damper_onnx::pb::ModelProto;
use damper_runtime::{Backend, BackendError, SessionSpec};
pub(crate) use difference::Difference;
use difference::{IndependenceTest, RunBits};
use made::is_by_row;
pub(crate) use made::{Made, edit_samples, made_up, made_up_data};
use std::num::NonZeroUsize;

/// Number of rows: enough, and more than one.
const ROWS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Checks that `backend` computes the outputs of `grad` with these name prefixes correctly, near the public initial
/// values `params`.
///
/// # Errors
///
/// The backend cannot run the graph, or computes a gradient wrong. The message names the gradient.
pub fn self_test(
    backend: &dyn Backend,
    grad: &GradGraph,
    prefixes: &[&str],
    rows: NonZeroUsize,
    params: &[f32],
) -> Result<(), BackendError> {
    let rows = rows.min(ROWS);
    let (model, plan) = plan(grad, prefixes, rows);
    let made = made_up(grad, &plan, params);
    backend.self_test(&model, &plan, &made.iter().map(Made::input).collect::<Vec<_>>())
}

/// Result of a test of a sample's gradient on synthetic samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Independence {
    /// The gradient has the same bits in another row of the batch, and next to other samples.
    Tested,
    /// The bits changed with the row or with the other samples.
    Refuted,
    /// The backend returns sums, so a sample's gradient cannot be compared.
    #[default]
    NotTested,
}

/// Result of a dry run of a network on synthetic samples.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rehearsed {
    /// The test that a sample's gradient depends on that sample alone.
    pub(crate) independence: Independence,
    /// The output and rows that failed the test.
    pub(crate) difference: Option<Difference>,
    /// True if no synthetic sample had a finite gradient, which is a public fact.
    pub(crate) none_is_finite: bool,
}

/// Tests that the outputs of `model` for a synthetic sample do not depend on its row or on the other samples. Compares
/// 64-bit hashes of the bits after each sample moves to the next row, and after other samples change. `make` creates
/// the values for the inputs of `plan`. A batch of one row has no other row.
///
/// # Errors
///
/// The backend cannot run the model.
pub(crate) fn independence(
    backend: &dyn Backend,
    model: &ModelProto,
    plan: &SessionSpec,
    make: &dyn Fn() -> Vec<Made>,
) -> Result<Rehearsed, BackendError> {
    let mut session = backend.load(model, plan)?;
    if !plan.outputs.iter().all(is_by_row) {
        // One run checks that the model runs.
        let made = make();
        session.run(&made.iter().map(Made::input).collect::<Vec<_>>(), &mut |_| {})?;
        return Ok(Rehearsed::default());
    }
    let rows = plan.batch;
    let move_on = |made: &mut [Made]| edit_samples(plan, made, &|made, width| made.rotate(width));
    // Replaces every second sample.
    let replace = |made: &mut [Made]| edit_samples(plan, made, &|made, width| made.replace_odd(width));
    let mut made = make();
    let first = RunBits::of(session.as_mut(), &made, rows)?;
    move_on(&mut made);
    let moved = RunBits::of(session.as_mut(), &made, rows)?;
    replace(&mut made);
    let beside = RunBits::of(session.as_mut(), &made, rows)?;
    let found = first.differs(&moved, (0..rows).map(|row| [row, (row + 1) % rows]));
    let found = found.map(|at| (IndependenceTest::OtherRow, at)).or_else(|| {
        let found = moved.differs(&beside, (0..rows).step_by(2).map(|row| [row, row]));
        found.map(|at| (IndependenceTest::OtherNeighbours, at))
    });
    let none_is_finite = beside.finite.iter().all(|finite| !finite);
    let Some((test, at)) = found else {
        return Ok(Rehearsed { independence: Independence::Tested, difference: None, none_is_finite });
    };
    let mut runs = [0, 1].map(|_| make());
    match test {
        IndependenceTest::OtherRow => move_on(&mut runs[1]),
        IndependenceTest::OtherNeighbours => {
            runs.iter_mut().for_each(|made| move_on(made));
            replace(&mut runs[1]);
        }
    }
    let difference = Some(Difference::locate(session.as_mut(), plan, test, runs, at)?);
    Ok(Rehearsed { independence: Independence::Refuted, difference, none_is_finite })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::worker::OUTPUTS;
    use damper_grad::{DeriveOptions, Loss, derive};
    use damper_onnx::TensorRef;
    use damper_onnx::graph::{Graph, GraphOptions};
    use damper_runtime::{Session, portable::Portable};
    use std::path::Path;

    const BATCH: NonZeroUsize = NonZeroUsize::new(4).unwrap();
    /// Index of the changed entry.
    const ENTRY: usize = 5;

    /// Changes [`ENTRY`] of the last output of every row, given the values of all rows and the index of the run.
    type Change = fn(run: usize, entries: &mut [f32]);

    /// The portable backend with a change to its outputs.
    struct Changed(Change);

    struct ChangedSession(Box<dyn Session>, Change, usize);

    impl Backend for Changed {
        fn name(&self) -> &'static str {
            "changed"
        }

        fn version(&self) -> String {
            String::new()
        }

        fn note(&self) -> String {
            String::new()
        }

        fn load(&self, model: &ModelProto, plan: &SessionSpec) -> Result<Box<dyn Session>, BackendError> {
            Ok(Box::new(ChangedSession(Portable.load(model, plan)?, self.0, 0)))
        }
    }

    impl Session for ChangedSession {
        fn run(&mut self, inputs: &[TensorRef<'_>], read: &mut dyn FnMut(&[&[f32]])) -> Result<(), BackendError> {
            let mut outputs = vec![];
            self.0.run(inputs, &mut |made| outputs = made.iter().map(|made| made.to_vec()).collect())?;
            let last: &mut Vec<f32> = outputs.last_mut().unwrap();
            let width = last.len() / BATCH;
            let mut entries: Vec<f32> = (0..BATCH.get()).map(|row| last[row * width + ENTRY]).collect();
            (self.1)(self.2, &mut entries);
            (0..BATCH.get()).for_each(|row| last[row * width + ENTRY] = entries[row]);
            self.2 += 1;
            read(&outputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
            Ok(())
        }
    }

    fn tested(change: Change) -> Rehearsed {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models/digits-linear.onnx");
        let graph = Graph::from_model(&damper_onnx::load(&path).unwrap(), &GraphOptions::default()).unwrap();
        let grad = derive(&graph, &DeriveOptions::new(Loss::SoftmaxCrossEntropy)).unwrap();
        let params: Vec<f32> = graph.trained().flat_map(|p| p.initial.as_f32().unwrap().to_vec()).collect();
        let (model, plan) = plan(&grad, &OUTPUTS, BATCH);
        independence(&Changed(change), &model, &plan, &|| made_up(&grad, &plan, &params)).unwrap()
    }

    #[test]
    fn own_gradients_pass() {
        let rehearsed = tested(|_, _| {});
        assert_eq!((rehearsed.independence, rehearsed.difference), (Independence::Tested, None));
    }

    #[test]
    fn difference_names_row_and_values() {
        let rehearsed = tested(|_, entries| entries.iter_mut().zip([0.5, 0.25, 2.0, 4.0]).for_each(|(x, y)| *x = y));
        assert_eq!(rehearsed.independence, Independence::Refuted);
        let found = rehearsed.difference.unwrap();
        assert_eq!((found.test, found.rows), (IndependenceTest::OtherRow, [0, 1]));
        assert_eq!(found.entry, Some((ENTRY, [0.5, 0.25])));
        assert_eq!(
            found.to_string(),
            "'dp.grad.fc.bias' of the synthetic sample in row 0 has other bits in row 1: entry 5 is 5e-1 (0x3f000000), then \
             2.5e-1 (0x3e800000)"
        );
    }

    // The maximum over all rows is unchanged when the rows move.
    #[test]
    fn difference_names_neighbours() {
        let rehearsed = tested(|_, entries| {
            let largest = entries.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            entries.fill(largest);
        });
        let found = rehearsed.difference.unwrap();
        assert_eq!((found.test, found.rows), (IndependenceTest::OtherNeighbours, [0, 0]));
        let (entry, [one, other]) = found.entry.unwrap();
        assert!(entry == ENTRY && one != other, "{found}");
        assert!(found.to_string().contains("in row 0 has other bits next to other samples: entry 5 is"), "{found}");
    }

    #[test]
    fn difference_may_be_gone() {
        let rehearsed = tested(|run, entries| entries[2] += if run == 1 { 1.0 } else { 0.0 });
        assert_eq!(rehearsed.independence, Independence::Refuted);
        let found = rehearsed.difference.unwrap();
        assert_eq!((found.rows, found.entry), ([1, 2], None));
        assert!(found.to_string().ends_with("so the backend does not repeat them"), "{found}");
    }
}
