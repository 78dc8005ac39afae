//! Settings that optimizers share.

use crate::described::{Flag, Kind, Setting};

/// Weight decay in the gradient.
pub(super) const PENALTY: Setting = Setting::new("weight_decay", Kind::F32, WEIGHT_DECAY, "weight decay");

/// Weight decay apart from it, as in AdamW.
pub const DECOUPLED: Setting = Setting::new("weight_decay", Kind::F64, WEIGHT_DECAY, "weight decay");

const WEIGHT_DECAY: Flag = Flag {
    name: "weight_decay",
    value: "W",
    help: "adamw, adam-bc: decoupled decay; the others: L2 penalty; adam has none [default: 0; adamw: 0.01]",
};

/// Decays of the moments.
pub(super) const BETA1: Setting = Setting::new("beta1", Kind::F64, BETAS, "beta1");
pub(super) const BETA2: Setting = Setting::new("beta2", Kind::F64, BETAS, "beta2");

const BETAS: Flag = Flag {
    name: "betas",
    value: "B1,B2",
    help: "adam, adamw, adam-bc: decay of the first and second moment [default: 0.9,0.999; doppler: 0,0.999, for its filter is \
           the first moment]",
};

/// Adam's ε: keeps the root of the second moment above 0.
pub(super) const EPSILON: Flag = Flag {
    name: "adam_epsilon",
    value: "E",
    help: "adam, adamw, adagrad, rmsprop: what is added to the root of the second moment; adam-bc: the least second moment that is \
           left after the noise's is taken off [default: 1e-8; adagrad: 1e-10; adam-bc: by the noise]",
};
