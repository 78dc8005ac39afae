//! The fuzz targets: a function each, of any bytes. Each must return for any bytes without a panic, in bounded time and
//! memory. If the result has a checkable property, the function asserts it.
//!
//! libFuzzer's programs (`fuzz/fuzz_targets`) call these functions. This crate's tests play the corpus through them
//! without nightly. `fuzz/README.md` describes both.

mod accountant;
mod capi;
mod flash;
mod fuzz_bytes;
mod pack;
mod update;

#[cfg(feature = "host")]
mod data;
#[cfg(feature = "host")]
mod model;
#[cfg(feature = "host")]
mod network;
#[cfg(feature = "host")]
mod record;

pub use accountant::accountant;
pub use capi::{capi, state};
pub use flash::{journal, snapshots};
pub use pack::pack;
pub use update::update;

#[cfg(feature = "host")]
pub use data::{cifar, csv, idx, images, npy, npz, parquet, text};
#[cfg(feature = "host")]
pub use model::model;
#[cfg(feature = "host")]
pub use network::network;
#[cfg(feature = "host")]
pub use record::{aggregate, events, filter, host_pack, runs};

/// A target: a function of any bytes.
pub type Target = fn(&[u8]);

/// The targets that need no host, by name.
pub const CORE: &[(&str, Target)] = &[
    ("accountant", accountant),
    ("capi", capi),
    ("journal", journal),
    ("pack", pack),
    ("snapshots", snapshots),
    ("state", state),
    ("update", update),
];

/// The targets of the host, by name.
#[cfg(feature = "host")]
pub const HOST: &[(&str, Target)] = &[
    ("aggregate", aggregate),
    ("cifar", cifar),
    ("csv", csv),
    ("events", events),
    ("filter", filter),
    ("host_pack", host_pack),
    ("idx", idx),
    ("images", images),
    ("model", model),
    ("network", network),
    ("npy", npy),
    ("npz", npz),
    ("parquet", parquet),
    ("runs", runs),
    ("text", text),
];
