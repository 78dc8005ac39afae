//! User options for a graph.

/// User options.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GraphOptions {
    /// Patterns (`*`, `?`) of initializers that are trained regardless of the rule.
    pub train: Vec<String>,
    /// Patterns of initializers that are not trained. They override `train`.
    pub freeze: Vec<String>,
    /// Patterns of the only initializers that are trained. If not empty, `train` and `freeze` are ignored.
    pub only: Vec<String>,
    /// Names of the initializers that are parameters, for callers that have this information. Each is one weight for
    /// all its readers. If not empty, no decision uses values or names, and `freeze`, `only`, `tie` and `untie` are
    /// ignored. With `adapters`, those adapters that `train` names are trained. Without them, `train` is an error.
    pub parameter: Vec<String>,
    /// Patterns of initializers that are one parameter for all their readers, regardless of the rule.
    pub tie: Vec<String>,
    /// Patterns of initializers that are a separate parameter for each reader. They override `tie`.
    pub untie: Vec<String>,
    /// Names of low-rank adapters that were added to the model. If there are any, only they and what `train` matches
    /// are trained.
    pub adapters: Vec<String>,
    /// Sizes of dynamic axes other than the batch, by the axis's name (`height`), or by `INPUT[AXIS]` if it is unnamed.
    pub shape: Vec<(String, usize)>,
    /// Public values of inputs that are not in the samples, by input name. The value is a number, `true`, `false`, or a
    /// comma-separated list with as many numbers as the input has.
    pub input: Vec<(String, String)>,
    /// Required output. If the whole model cannot be read, the other outputs are dropped, with everything that only
    /// they need.
    pub output: Option<String>,
}
