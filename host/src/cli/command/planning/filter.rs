//! `damper filter`: analysis and design of recursive filters of released gradients.

use crate::cli::{Failure, answer, answer_json};
use clap::{ArgGroup, Args, ValueEnum};
use damper_core::filter::SETS;
use damper_design::{Analysis, Coefficients, Design, FilterError, Shape, list};
use serde::Serialize;

const AFTER_HELP: &str = "\
The filter is m_t = -sum a_r m_(t-r) + sum b_r g_(t-r), a without its leading
1, divided by its response to 1, 1, 1, ... (DOPPLER, DP-PMLF). An unstable
filter, or one whose step response is ever 0 or less, is refused.

Examples:
  damper filter momentum
  damper filter --a=-0.9 --b=0.15,-0.05
  damper filter --design butterworth --order 2 --cutoff 0.1
  damper filter --list";

/// Shows the effect of a filter on noise and training, or designs a filter from a cut-off.
#[derive(Args, Debug)]
#[command(
    allow_negative_numbers = true,
    after_help = AFTER_HELP,
    group = ArgGroup::new("filter").required(true).args(["name", "b", "design", "list"]),
)]
pub(in crate::cli) struct FilterArgs {
    /// A published filter: see --list
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Feedback coefficients a_1,a_2,... separated by commas. Quotients such as -9/11 are fine [default: none]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true, requires = "b")]
    a: Option<String>,
    /// Input coefficients b_0,b_1,... separated by commas
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    b: Option<String>,
    /// Designs a low-pass filter
    #[arg(long, value_name = "KIND", requires = "order", requires = "cutoff")]
    design: Option<Kind>,
    /// Number of poles of the design, from 1 to 16. 1 or 2 is usual
    #[arg(long, value_name = "N", requires = "design")]
    order: Option<usize>,
    /// End of the design's pass band: a fraction of the Nyquist frequency (half a cycle a step), between 0 and 1
    #[arg(long, value_name = "W", requires = "design")]
    cutoff: Option<f64>,
    /// Ripple of a Chebyshev design in the pass band, in dB [default: 0.5]
    #[arg(long, value_name = "DB", requires = "design")]
    ripple: Option<f64>,
    /// Lists the published filters with their properties
    #[arg(long)]
    list: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Families of designs.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Flat at frequency 0, -3 dB at the cut-off.
    Butterworth,
    /// Type I: steeper, with ripples before the cut-off.
    Chebyshev,
}

#[derive(Serialize)]
struct List {
    filters: Vec<Analysis>,
}

pub(in crate::cli) fn run(args: &FilterArgs) -> Result<(), Failure> {
    if args.list {
        let published = SETS.iter().map(|set| published(set.name)).collect::<Result<Vec<_>, _>>()?;
        return if args.json { answer_json(&List { filters: published }) } else { answer(&list(&published)) };
    }
    let found = match (&args.name, args.design) {
        (Some(name), _) => published(name)?,
        (None, Some(kind)) => designed(kind, args)?,
        (None, None) => {
            let (a, b) = (args.a.as_deref().unwrap_or_default(), args.b.as_deref().unwrap_or_default());
            Coefficients::parse(a, b)?.analysis(None, "given by its coefficients".into())?
        }
    };
    if args.json { answer_json(&found) } else { answer(&found.to_string()) }
}

fn published(name: &str) -> Result<Analysis, FilterError> {
    let filter = Coefficients::named(name)?;
    let set = damper_core::filter::named(name).ok_or_else(|| FilterError::Unknown(name.into()))?;
    filter.analysis(Some(set.name.into()), set.source.into())
}

fn designed(kind: Kind, args: &FilterArgs) -> Result<Analysis, Failure> {
    let shape = match (kind, args.ripple) {
        (Kind::Butterworth, None) => Shape::Butterworth,
        (Kind::Butterworth, Some(_)) => {
            return Err(Failure::usage("`ripple`: a Butterworth filter has none; leave it out, or `design` chebyshev"));
        }
        (Kind::Chebyshev, ripple) => Shape::Chebyshev { ripple: ripple.unwrap_or(0.5) },
    };
    let (order, cutoff) = (args.order.unwrap_or_default(), args.cutoff.unwrap_or_default());
    let filter = Coefficients::design(&Design { shape, order, cutoff })?;
    let source = match shape {
        Shape::Butterworth => format!("Butterworth, order {order}, cut-off {cutoff}"),
        Shape::Chebyshev { ripple } => format!("Chebyshev, order {order}, cut-off {cutoff}, ripple {ripple} dB"),
    };
    filter.analysis(None, source.clone()).map_err(|error| match error {
        FilterError::Refused { reason, .. } => Failure::new(format!(
            "{source}: its coefficients rounded to f32 no longer run: {reason}; lower `order` or raise `cutoff`"
        )),
        error => error.into(),
    })
}
