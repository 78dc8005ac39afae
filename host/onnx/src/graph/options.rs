//! The user's options for a graph.

/// The user's options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GraphOptions {
    /// Patterns (`*`, `?`) of initializers that are trained whatever the rule says.
    pub train: Vec<String>,
    /// Patterns of initializers that are not trained; they win over `train`.
    pub freeze: Vec<String>,
    /// Patterns of the initializers that are trained, and no others. Where it is not empty, `train` and `freeze` count for nothing.
    pub only: Vec<String>,
    /// Names of the initializers that are the parameters, each one weight for all its uses: given by a caller that knows them. Where it
    /// is not empty, nothing is taken from values or names, and `freeze`, `only`, `tie` and `untie` count for nothing. If there are
    /// `adapters`, those of them that `train` names are trained; else `train` is an error.
    pub parameter: Vec<String>,
    /// Patterns of initializers that are one parameter for all their uses, whatever the rule says.
    pub tie: Vec<String>,
    /// Patterns of initializers that are a parameter of its own for each use; they win over `tie`.
    pub untie: Vec<String>,
    /// Names of low-rank adapters that were added to the model. If there are any, they are trained, and of the rest what `train` names.
    pub adapters: Vec<String>,
    /// Sizes of dynamic axes other than the batch, by the axis's name (`height`), or `INPUT[AXIS]` where it has none.
    pub shape: Vec<(String, usize)>,
    /// Public values of inputs that samples do not give, by the input's name: a number, `true` or `false`, or as many numbers as the input
    /// has, with commas between them.
    pub input: Vec<(String, String)>,
    /// The output that matters. If the model cannot be read whole, the others are left out, with what they alone need.
    pub output: Option<String>,
}
