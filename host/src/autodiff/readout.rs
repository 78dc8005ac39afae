//! What an emitted graph says of the gradients: a stage of its own over their factored form.

mod per_sample;

pub use per_sample::per_sample;

/// What to read out of one sweep.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Readout {
    /// `dp.grad.NAME` `[N, *shape]` for each trained parameter.
    #[default]
    PerSample,
}
