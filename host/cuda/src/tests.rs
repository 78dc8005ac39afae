//! The kernels as C++ against `damper-core` and against slow references.

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

/// The need that `DAMPER_REQUIRE` names to make a missing C++ compiler a failure.
const NEED: &str = "g++";

/// An emulated device. Prints a line and returns nothing if no C++ compiler is here.
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
