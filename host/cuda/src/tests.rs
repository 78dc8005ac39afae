//! Compares the kernels as C++ with `damper-core` and with slow references.

#[cfg(feature = "cuda")]
mod card;
mod faults;
mod gradients;
mod noise;
mod reference;
mod rehearsal;
mod step;
mod sums;
mod table;
mod updates;
mod wiping;

use crate::{CudaDevice, DeviceError, EmulatedDevice, ThreadOrder};
use std::sync::Arc;

/// Name in `DAMPER_REQUIRE` that makes a missing C++ compiler a failure.
const NEED: &str = "g++";

/// Emulated device. Without a C++ compiler, prints a line and returns `None`.
fn device(order: ThreadOrder) -> Option<Arc<dyn CudaDevice>> {
    match EmulatedDevice::new(order, u64::MAX) {
        Ok(device) => Some(Arc::new(device)),
        Err(DeviceError::NoDevice(why)) => {
            damper_testing::skip(NEED, why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}
