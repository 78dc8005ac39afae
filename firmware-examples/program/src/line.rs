//! Output lines of a program. Each can be written as text and logged with defmt, with the same content.

use core::fmt;
use damper_core::error::{CallError, ConfigError};

/// Reasons for which a run ended early.
#[derive(Debug)]
pub enum RunFailure {
    /// A configuration was refused.
    Config(ConfigError),
    /// A call was refused.
    Call(CallError),
    /// Another item was refused.
    Refused(&'static str),
}

impl From<ConfigError> for RunFailure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<CallError> for RunFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl RunFailure {
    /// Returns the line for this failure.
    #[must_use]
    pub fn line<'a>(&self) -> ReportLine<'a> {
        match *self {
            Self::Config(error) => ReportLine::Failed(error.parameter),
            Self::Call(CallError::Length { what, .. } | CallError::Order(what)) | Self::Refused(what) => {
                ReportLine::Failed(what)
            }
            Self::Call(_) => ReportLine::Failed("a call was refused"),
        }
    }
}

/// Bytes in a line of hexadecimal digits.
const ROW: usize = 32;

/// Buffer that turns bytes into lines of hexadecimal digits.
#[derive(Debug)]
pub struct Hex {
    digits: [u8; 2 * ROW],
    taken: usize,
}

impl Default for Hex {
    fn default() -> Self {
        Self { digits: [b'0'; 2 * ROW], taken: 0 }
    }
}

impl Hex {
    /// Returns an empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes. Every full line is passed to `say`.
    pub fn push(&mut self, bytes: &[u8], mut say: impl FnMut(&str)) {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble };
        for byte in bytes {
            for nibble in [byte >> 4, byte & 15] {
                if let Some(place) = self.digits.get_mut(self.taken) {
                    *place = digit(nibble);
                    self.taken += 1;
                }
            }
            if self.taken == self.digits.len() {
                self.end(&mut say);
            }
        }
    }

    /// Passes the remaining bytes to `say`.
    pub fn end(&mut self, mut say: impl FnMut(&str)) {
        let digits = self.digits.get(..self.taken).and_then(|digits| core::str::from_utf8(digits).ok());
        if let Some(digits) = digits.filter(|digits| !digits.is_empty()) {
            say(digits);
        }
        self.taken = 0;
    }
}

/// One line.
#[derive(Clone, Copy)]
pub enum ReportLine<'a> {
    /// Start of a run.
    Start {
        /// The model's name.
        model: &'a str,
        /// The method's name.
        method: &'a str,
        /// Parameters.
        dim: u32,
        /// Samples to train on.
        samples: u32,
        /// True if the generator's key is secret.
        private: bool,
    },
    /// The ledger refused a further step.
    BudgetSpent {
        /// Steps that were released.
        steps: u32,
    },
    /// Accuracy of the trained model on held-out samples.
    HeldOut {
        /// Correctly classified samples.
        right: u32,
        /// Samples held out.
        samples: u32,
    },
    /// The digest of the parameters.
    Params(u64),
    /// Noise in the sum over all steps, against that of independent noise at the same privacy cost.
    PrefixNoise {
        /// The noise.
        noise: &'a str,
        /// Its measured deviation, in hundredths of a clip.
        measured: u32,
        /// Its deviation by the formula.
        theory: u32,
    },
    /// Size of the adapted layer and of its data.
    Personalise {
        /// Parameters of the last layer.
        dim: u32,
        /// Outputs of the frozen extractor.
        features: u32,
        /// Arriving samples.
        samples: u32,
    },
    /// The power was lost, or the budget is spent.
    PowerUp {
        /// Steps released so far.
        released: u32,
        /// True if the ledger refused a further step.
        spent: bool,
    },
    /// Memory of the board that the program used. It differs between boards.
    Taken {
        /// Largest number of bytes of stack, buffers included.
        stack: u32,
        /// Bytes of flash, data included.
        flash: u32,
        /// Bytes of static variables.
        statics: u32,
    },
    /// Use of the budget.
    Burned {
        /// Steps that were charged.
        paid: u32,
        /// Steps that were released.
        released: u32,
    },
    /// Bytes of an update, in hexadecimal digits.
    Update(&'a str),
    /// An update has left.
    Emitted {
        /// The device's number.
        device: u32,
        /// Its expected samples.
        samples: u32,
        /// Bytes of the update.
        bytes: u32,
    },
    /// The program stopped unexpectedly.
    Failed(&'static str),
}

impl fmt::Display for ReportLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Start { model, method, dim, samples, private } => {
                let key = if private { "private key" } else { "simulation, the key is known" };
                write!(f, "train: {method}, {model} of {dim} parameters, {samples} samples, {key}")
            }
            Self::BudgetSpent { steps } => write!(f, "budget spent after {steps} steps"),
            Self::HeldOut { right, samples } => write!(f, "held out: {right} of {samples} right"),
            Self::PrefixNoise { noise, measured, theory } => write!(
                f,
                "{noise}: {}.{:02} clips of noise in the sum, theory {}.{:02}",
                measured / 100,
                measured % 100,
                theory / 100,
                theory % 100
            ),
            Self::Params(digest) => write!(f, "params fnv1a64 {digest:016x}"),
            Self::Personalise { dim, features, samples } => write!(
                f,
                "personalise: {dim} parameters on {features} frozen features, {samples} samples, simulation, the key is known"
            ),
            Self::PowerUp { released, spent } => {
                let end = if spent { "the budget is spent" } else { "the power is lost" };
                write!(f, "{end} after {released} steps")
            }
            Self::Burned { paid, released } => write!(f, "paid {paid} steps, released {released}"),
            Self::Taken { stack, flash, statics } => {
                write!(f, "board: {stack} bytes of stack, {flash} of flash, {statics} of static RAM")
            }
            Self::Update(hex) => write!(f, "update {hex}"),
            Self::Emitted { device, samples, bytes } => {
                write!(f, "federated: device {device} emitted {bytes} bytes, {samples} samples expected")
            }
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for ReportLine<'_> {
    fn format(&self, f: defmt::Formatter<'_>) {
        match *self {
            Self::Start { model, method, dim, samples, private } => {
                let key = if private { "private key" } else { "simulation, the key is known" };
                defmt::write!(
                    f,
                    "train: {=str}, {=str} of {=u32} parameters, {=u32} samples, {=str}",
                    method,
                    model,
                    dim,
                    samples,
                    key
                )
            }
            Self::BudgetSpent { steps } => defmt::write!(f, "budget spent after {=u32} steps", steps),
            Self::HeldOut { right, samples } => defmt::write!(f, "held out: {=u32} of {=u32} right", right, samples),
            Self::PrefixNoise { noise, measured, theory } => defmt::write!(
                f,
                "{=str}: {=u32}.{=u32:02} clips of noise in the sum, theory {=u32}.{=u32:02}",
                noise,
                measured / 100,
                measured % 100,
                theory / 100,
                theory % 100
            ),
            Self::Params(digest) => defmt::write!(f, "params fnv1a64 {=u64:016x}", digest),
            Self::Personalise { dim, features, samples } => defmt::write!(
                f,
                "personalise: {=u32} parameters on {=u32} frozen features, {=u32} samples, simulation, the key is known",
                dim,
                features,
                samples
            ),
            Self::PowerUp { released, spent } => {
                let end = if spent { "the budget is spent" } else { "the power is lost" };
                defmt::write!(f, "{=str} after {=u32} steps", end, released)
            }
            Self::Burned { paid, released } => {
                defmt::write!(f, "paid {=u32} steps, released {=u32}", paid, released)
            }
            Self::Taken { stack, flash, statics } => defmt::write!(
                f,
                "board: {=u32} bytes of stack, {=u32} of flash, {=u32} of static RAM",
                stack,
                flash,
                statics
            ),
            Self::Update(hex) => defmt::write!(f, "update {=str}", hex),
            Self::Emitted { device, samples, bytes } => defmt::write!(
                f,
                "federated: device {=u32} emitted {=u32} bytes, {=u32} samples expected",
                device,
                bytes,
                samples
            ),
            Self::Failed(why) => defmt::write!(f, "failed: {=str}", why),
        }
    }
}
