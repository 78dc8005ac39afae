//! The values of a frozen part with operators without a rule, on one sample at a time.
//!
//! A runtime's operators are functions of their inputs, so the values of a sample depend on that sample alone, whatever
//! an operator does with the axis of the samples. Before any sample is read, the runtime is tested on synthetic
//! samples: a sample has the same bits after other samples, and in a new session.
//!
//! If the runtime fails on a sample, or a value has another shape than for synthetic samples, the sample's values are
//! NaN. Then its gradient is not finite and counts as zero. An error would show that such a sample is in the data.

use crate::TrainError;
use crate::engine::rehearsal::{Made, made_up_data};
use crate::plan::inputs::fixed;
use damper_grad::FrozenPart;
use damper_onnx::TensorRef;
use damper_runtime::{Backend, SessionSpec, WrittenOutput, WrittenSession};

/// Maximum number of synthetic samples.
const SAMPLES: usize = 4;

/// Loads the part.
pub(super) fn load(part: &FrozenPart, backend: &dyn Backend) -> Result<Box<dyn WrittenSession>, TrainError> {
    Ok(backend.load_written(&part.model, &part.inputs, 1)?)
}

/// Writes the values of the sample `inputs` to `to`.
pub(super) fn compute(
    session: &mut dyn WrittenSession,
    part: &FrozenPart,
    inputs: &[TensorRef<'_>],
    to: &mut [&mut [f32]],
) {
    match session.run(inputs).ok().and_then(|outputs| as_stored(part, outputs)) {
        Some(values) => to.iter_mut().zip(values).for_each(|(to, values)| to.copy_from_slice(&values)),
        None => to.iter_mut().for_each(|to| to.fill(f32::NAN)),
    }
}

/// Values of the outputs, if all have the shapes of the part.
fn as_stored(part: &FrozenPart, outputs: Vec<Option<WrittenOutput>>) -> Option<Vec<Vec<f32>>> {
    let stored = part.stored.iter().zip(outputs).map(|(spec, output)| {
        let output = output?;
        (output.shape == [&[1], &fixed(spec)[..]].concat()).then_some(output.values)
    });
    stored.collect()
}

/// Runs the part on `rows` synthetic samples. Returns its inputs and stored values for them.
///
/// # Errors
///
/// The backend cannot run the part, computes it wrong, or gives a sample other bits after other samples.
pub(super) fn rehearse(
    part: &FrozenPart,
    rows: usize,
    backend: &dyn Backend,
) -> Result<(Vec<Made>, Vec<Made>), TrainError> {
    // At least two, to test one after the other. Later rows repeat them.
    let count = rows.clamp(2, SAMPLES);
    let of = |batch| SessionSpec { batch, threads: 1, inputs: part.inputs.clone(), outputs: part.stored.clone() };
    let made = made_up_data(&of(count));
    let widths: Vec<usize> = part.inputs.iter().map(|spec| spec.elements(1)).collect();
    let sample = |row: usize| -> Vec<TensorRef<'_>> {
        made.iter().zip(&widths).map(|(made, width)| made.row(row, *width)).collect()
    };
    self_test(part, backend, &sample(0), of(1))?;
    let mut session = load(part, backend)?;
    let run = |session: &mut dyn WrittenSession, row: usize| -> Result<Vec<Vec<f32>>, TrainError> {
        let outputs = session.run(&sample(row))?;
        as_stored(part, outputs).ok_or_else(|| {
            TrainError::Run(
                "the shape of a value of the frozen part depends on the numbers of the sample, and all samples need one shape; train from an \
                 earlier layer, or export the model without the operator"
                    .into(),
            )
        })
    };
    let values = (0..count).map(|row| run(session.as_mut(), row)).collect::<Result<Vec<_>, _>>()?;
    let again = [run(session.as_mut(), 0)?, run(load(part, backend)?.as_mut(), 0)?];
    let bits = |values: &[Vec<f32>]| values.iter().flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
    if again.iter().any(|again| bits(again) != bits(&values[0])) {
        let problem = "the frozen part gives a synthetic sample other values in another run, so an operator draws random numbers or keeps a \
                       state; export the model without it";
        return Err(TrainError::Run(problem.into()));
    }
    let repeated = |row: usize| row % count;
    let of_output =
        |at: usize| Made::F32((0..rows).flat_map(|row| values[repeated(row)][at].iter().copied()).collect());
    let stored = (0..part.stored.len()).map(of_output).collect();
    let of_input = |(made, width): (&Made, &usize)| made.select((0..rows).map(repeated), *width);
    let inputs = made.iter().zip(&widths).map(of_input).collect();
    Ok((inputs, stored))
}

/// Runs the backend's own test, on the inputs that the part reads.
fn self_test(
    part: &FrozenPart,
    backend: &dyn Backend,
    sample: &[TensorRef<'_>],
    plan: SessionSpec,
) -> Result<(), TrainError> {
    let declared = part.model.graph.iter().flat_map(|graph| &graph.input);
    let names: Vec<&str> = declared.map(|input| input.name.as_str()).collect();
    let is_read = |at: &usize| names.contains(&part.inputs[*at].name.as_str());
    let read: Vec<usize> = (0..part.inputs.len()).filter(is_read).collect();
    let plan = SessionSpec { inputs: read.iter().map(|at| part.inputs[*at].clone()).collect(), ..plan };
    Ok(backend.self_test(&part.model, &plan, &read.iter().map(|at| sample[*at]).collect::<Vec<_>>())?)
}
