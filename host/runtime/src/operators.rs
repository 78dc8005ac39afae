//! Operators of the graphs that a backend runs.

/// Set of operators that a backend runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operators {
    /// Standard ONNX operators and damper's custom operators.
    Own,
    /// Only standard ONNX operators.
    Standard,
}

impl Operators {
    /// Returns `own` or `standard`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Standard => "standard",
        }
    }
}

impl std::str::FromStr for Operators {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Own, Self::Standard];
        let found = all.into_iter().find(|operators| operators.name() == name);
        found.ok_or_else(|| format!("unknown operators '{name}': use own or standard"))
    }
}
