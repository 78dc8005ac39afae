//! Expected gradient of the generated crate's test, computed by the portable backend.

use crate::error::CompileError;
use crate::network::{Network, Part, gradients, plan};
use crate::test::value;
use damper_grad::GradGraph;
use damper_onnx::TensorRef;
use damper_runtime::portable::{Kind, Portable};
use damper_runtime::{Backend as _, BackendError};

/// Values of an input.
enum Numbers {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

/// Computes the gradient at `params`, `[D]`.
pub(crate) fn gradient(network: &Network, grad: &GradGraph, params: &[f32]) -> Result<Vec<f32>, CompileError> {
    let failed = |error: BackendError| CompileError::new(error.0);
    let mut session = Portable.load(&grad.model, &plan(grad, gradients(grad))).map_err(failed)?;
    let sample = network.inputs.iter().map(|port| match port.kind {
        Kind::F32 => Numbers::F32((0..port.len).map(value).collect()),
        _ => Numbers::I64(vec![0; port.len]),
    });
    let sample: Vec<Numbers> = sample.collect();
    let given = sample.iter().map(|numbers| match numbers {
        Numbers::F32(numbers) => TensorRef::F32(numbers),
        Numbers::I64(numbers) => TensorRef::I64(numbers),
    });
    let parameters =
        network.parameters.iter().map(|parameter| TensorRef::F32(&params[parameter.start..][..parameter.len]));
    let inputs: Vec<TensorRef<'_>> = given.chain(parameters).collect();
    let mut whole = vec![];
    session
        .run(&inputs, &mut |outputs| {
            let mut outputs = outputs.iter();
            for parameter in &network.parameters {
                let mut next = || outputs.next().copied().unwrap_or_default();
                match &parameter.grad {
                    Part::Whole(_) => whole.extend_from_slice(next()),
                    Part::Outer(..) => {
                        let (left, right) = (next(), next());
                        whole.extend(left.iter().flat_map(|l| right.iter().map(move |r| l * r)));
                    }
                    Part::Kernel(_, _, window) => {
                        let (dy, x) = (next(), next());
                        let mut kernel = vec![0.0; parameter.len];
                        damper_nn::convolution::kernel_grad::<damper_nn::Wide>(window, dy, x, &mut kernel)
                            .expect("the outputs have the window's shapes");
                        whole.extend(kernel);
                    }
                }
            }
        })
        .map_err(failed)?;
    Ok(whole)
}
