//! Initialisation schemes by name: `kaiming-normal(fan-out)`, `uniform(-0.1, 0.1)`, `zeros`.
//!
//! | written | distribution | source |
//! | --- | --- | --- |
//! | `zeros`, `ones`, `constant(C)` | all equal | |
//! | `uniform(LOW, HIGH)` | U(LOW, HIGH) | |
//! | `normal(MEAN, STD)` | N(MEAN, STD²) | |
//! | `truncated-normal(MEAN, STD)` | the same, redrawn beyond two STD | |
//! | `kaiming-uniform(…)` | U(±g √(3 / fan)) | He et al. 2015 |
//! | `kaiming-normal(…)` | N(0, g² / fan) | He et al. 2015 |
//! | `xavier-uniform(…)` | U(±g √(6 / (fan_in + fan_out))) | Glorot and Bengio 2010 |
//! | `xavier-normal(…)` | N(0, 2 g² / (fan_in + fan_out)) | Glorot and Bengio 2010 |
//!
//! The arguments of `kaiming-…` are optional and may have any order. They are `fan-in` (default) or `fan-out`, and
//! `a=A`, the slope of a leaky ReLU, g = √(2 / (1 + A²)). `relu` is `a=0` (default), and `linear` is `a=1`. The
//! argument of `xavier-…` is `gain=G` (default 1). `kaiming-uniform(a=2.23606797749979)`, a = √5, is the default of
//! PyTorch's layers. Its bound is 1 / √fan_in, and a bias has the fan of its layer's weight.

use damper_core::numerics::function::sqrt_f64;
use std::fmt;
use std::str::FromStr;

/// √5, correctly rounded.
const SQRT_5: f64 = 2.23606797749979;

/// Initialisation scheme.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Initialiser {
    /// Scheme without fans.
    Plain(Distribution),
    /// Variance `g² / fan`.
    Kaiming {
        /// Uniform or normal.
        form: FanDistribution,
        /// Selected fan.
        fan: Fan,
        /// Slope of the leaky ReLU after the layer.
        a: f64,
    },
    /// Variance `2 g² / (fan_in + fan_out)`.
    Xavier {
        /// Uniform or normal.
        form: FanDistribution,
        /// Gain g.
        gain: f64,
    },
}

/// Shape of a distribution with mean 0 and a variance from fans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FanDistribution {
    /// `U(±√3 s)`.
    Uniform,
    /// `N(0, s²)`.
    Normal,
}

/// Selected fan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// Number of inputs of an output.
    In,
    /// Number of outputs of an input.
    Out,
}

/// Fans of a weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fans {
    /// Number of inputs that an output sums over.
    pub fan_in: usize,
    /// Number of outputs that an input contributes to.
    pub fan_out: usize,
}

/// Distribution of values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Distribution {
    /// Constant.
    Constant(f64),
    /// Uniform between two bounds.
    Uniform {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// Gaussian.
    Normal {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        std: f64,
    },
    /// Gaussian, redrawn beyond two standard deviations.
    TruncatedNormal {
        /// Mean.
        mean: f64,
        /// Standard deviation before truncation.
        std: f64,
    },
}

impl Initialiser {
    /// All values 0.
    pub const ZEROS: Self = Self::Plain(Distribution::Constant(0.0));
    /// All values 1.
    pub const ONES: Self = Self::Plain(Distribution::Constant(1.0));
    /// Default of PyTorch's Linear and Conv layers: uniform within `±1/√fan_in`, for weight and bias.
    pub const LAYER: Self = Self::Kaiming { form: FanDistribution::Uniform, fan: Fan::In, a: SQRT_5 };

    /// Distribution for a tensor with these fans. `None` if the scheme needs fans and there are none.
    pub fn distribution(&self, fans: Option<Fans>) -> Option<Distribution> {
        let (form, variance) = match *self {
            Self::Plain(distribution) => return Some(distribution),
            Self::Kaiming { form, fan, a } => {
                let fans = fans?;
                let fan = if fan == Fan::In { fans.fan_in } else { fans.fan_out };
                (form, 2.0 / (1.0 + a * a) / fan as f64)
            }
            Self::Xavier { form, gain } => {
                let fans = fans?;
                (form, gain * gain * 2.0 / (fans.fan_in as f64 + fans.fan_out as f64))
            }
        };
        Some(match form {
            FanDistribution::Uniform => {
                let bound = sqrt_f64(3.0 * variance);
                Distribution::Uniform { low: -bound, high: bound }
            }
            FanDistribution::Normal => Distribution::Normal { mean: 0.0, std: sqrt_f64(variance) },
        })
    }
}

impl fmt::Display for Initialiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |form: FanDistribution| if form == FanDistribution::Uniform { "uniform" } else { "normal" };
        match *self {
            Self::ZEROS => f.write_str("zeros"),
            Self::ONES => f.write_str("ones"),
            Self::Plain(Distribution::Constant(c)) => write!(f, "constant({c})"),
            Self::Plain(Distribution::Uniform { low, high }) => write!(f, "uniform({low}, {high})"),
            Self::Plain(Distribution::Normal { mean, std }) => write!(f, "normal({mean}, {std})"),
            Self::Plain(Distribution::TruncatedNormal { mean, std }) => write!(f, "truncated-normal({mean}, {std})"),
            Self::Kaiming { form, fan, a } => {
                write!(f, "kaiming-{}({}", name(form), if fan == Fan::In { "fan-in" } else { "fan-out" })?;
                if a == 0.0 { f.write_str(", relu)") } else { write!(f, ", a={a})") }
            }
            Self::Xavier { form, gain } => write!(f, "xavier-{}(gain={gain})", name(form)),
        }
    }
}

impl FromStr for Initialiser {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, inside) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => (name.trim(), rest.strip_suffix(')').ok_or("ends without a closing parenthesis")?),
        };
        let args: Vec<&str> = inside.split(',').map(str::trim).filter(|arg| !arg.is_empty()).collect();
        let one = |what: &str| match args[..] {
            [value] => number(value),
            _ => Err(format!("{name} takes {what}")),
        };
        let two = |what: &str| match args[..] {
            [first, second] => Ok((number(first)?, number(second)?)),
            _ => Err(format!("{name} takes {what}")),
        };
        let spread = |(mean, std): (f64, f64)| {
            if std >= 0.0 { Ok((mean, std)) } else { Err(format!("{name}: STD is below 0")) }
        };
        let form = if name.ends_with("uniform") { FanDistribution::Uniform } else { FanDistribution::Normal };
        Ok(match name {
            "zeros" | "ones" if !args.is_empty() => return Err(format!("{name} takes no argument")),
            "zeros" => Self::ZEROS,
            "ones" => Self::ONES,
            "constant" => Self::Plain(Distribution::Constant(one("one number")?)),
            "uniform" => {
                let (low, high) = two("LOW, HIGH")?;
                if low > high {
                    return Err("uniform: LOW is above HIGH".into());
                }
                Self::Plain(Distribution::Uniform { low, high })
            }
            "normal" => {
                let (mean, std) = spread(two("MEAN, STD")?)?;
                Self::Plain(Distribution::Normal { mean, std })
            }
            "truncated-normal" => {
                let (mean, std) = spread(two("MEAN, STD")?)?;
                Self::Plain(Distribution::TruncatedNormal { mean, std })
            }
            "kaiming-uniform" | "kaiming-normal" => {
                let (mut fan, mut a) = (Fan::In, 0.0);
                for arg in args {
                    match (arg, arg.strip_prefix("a=")) {
                        ("fan-in", _) => fan = Fan::In,
                        ("fan-out", _) => fan = Fan::Out,
                        ("relu", _) => a = 0.0,
                        ("linear", _) => a = 1.0,
                        (_, Some(slope)) => a = number(slope)?,
                        _ => return Err(format!("{name} takes fan-in, fan-out, relu, linear, a=A; not '{arg}'")),
                    }
                }
                Self::Kaiming { form, fan, a }
            }
            "xavier-uniform" | "xavier-normal" => {
                let gain = match args[..] {
                    [] => 1.0,
                    [arg] => number(arg.strip_prefix("gain=").ok_or_else(|| format!("{name} takes gain=G"))?)?,
                    _ => return Err(format!("{name} takes gain=G")),
                };
                Self::Xavier { form, gain }
            }
            _ => {
                return Err("use zeros, ones, constant(C), uniform(LOW, HIGH), normal(MEAN, STD), \
                            truncated-normal(MEAN, STD), kaiming-uniform, kaiming-normal, xavier-uniform or \
                            xavier-normal"
                    .into());
            }
        })
    }
}

/// Parses a number that is small enough that no draw and no variance exceeds f32.
fn number(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
    if value.abs() <= 1e18 { Ok(value) } else { Err(format!("'{text}' is beyond 1e18")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_reads_back_as_itself() {
        for text in [
            "zeros",
            "ones",
            "constant(0.25)",
            "uniform(-0.1, 0.2)",
            "normal(0, 0.02)",
            "truncated-normal(0, 0.02)",
            "kaiming-uniform(fan-in, a=2.23606797749979)",
            "kaiming-normal(fan-out, relu)",
            "xavier-uniform(gain=1)",
            "xavier-normal(gain=0.5)",
        ] {
            let parsed: Initialiser = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
        }
        assert_eq!("kaiming-uniform(a=2.23606797749979)".parse(), Ok(Initialiser::LAYER));
        assert_eq!("constant(1)".parse(), Ok(Initialiser::ONES));
    }

    // The error for an invalid scheme names the expected format.
    #[test]
    fn invalid_initializer_error_names_format() {
        for (text, words) in [
            ("kaming-normal", "use zeros, ones"),
            ("zeros(1)", "takes no argument"),
            ("constant", "takes one number"),
            ("uniform(1)", "LOW, HIGH"),
            ("uniform(2, 1)", "LOW is above HIGH"),
            ("normal(0, -1)", "STD is below 0"),
            ("normal(0, x)", "'x' is no number"),
            ("normal(0, NaN)", "beyond 1e18"),
            ("normal(0, 1e30)", "beyond 1e18"),
            ("normal(0, 1", "closing parenthesis"),
            ("kaiming-normal(fan)", "not 'fan'"),
            ("xavier-normal(2)", "gain=G"),
        ] {
            let error = text.parse::<Initialiser>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn variances_follow_the_fans() {
        let fans = Some(Fans { fan_in: 64, fan_out: 16 });
        let of = |text: &str| text.parse::<Initialiser>().unwrap().distribution(fans).unwrap();
        let normal = |std| Distribution::Normal { mean: 0.0, std };
        assert_eq!(of("kaiming-normal(linear)"), normal(0.125));
        assert_eq!(of("kaiming-normal(fan-out, linear)"), normal(0.25));
        assert_eq!(of("kaiming-normal(fan-out, a=1)"), normal(0.25));
        assert_eq!(of("kaiming-normal"), normal(sqrt_f64(2.0 / 64.0)));
        assert_eq!(of("xavier-normal(gain=2)"), normal(sqrt_f64(0.1)));
        let Distribution::Uniform { low, high } = of("kaiming-uniform(a=2.23606797749979)") else { panic!() };
        assert!(low == -high && (high - 0.125).abs() < 1e-15, "1 / sqrt(fan_in), not {high}");
        assert_eq!(Initialiser::LAYER.distribution(None), None);
        assert_eq!(Initialiser::ONES.distribution(None), Some(Distribution::Constant(1.0)));
    }
}
