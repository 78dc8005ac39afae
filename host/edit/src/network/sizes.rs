//! Sizes of a network.

/// Public sizes of a network's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkSizes {
    /// Extents of a sample: `[F]` for a table, `[C, H, W]` for pictures, `[T, F]` for series, `[S]` for texts.
    pub sample: Vec<usize>,
    /// Number of tokens, for texts.
    pub tokens: Option<usize>,
    /// Number of outputs: the classes, or 1 for a number.
    pub outputs: usize,
}
