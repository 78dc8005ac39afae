//! Tests the kernels on a card, if this machine has one, with the same comparisons as the emulation.

use super::{noise, step, sums, updates, wiping};
use crate::card::cubin;
use crate::{Card, CudaDevice, DeviceError};
use std::sync::Arc;

/// Names in `DAMPER_REQUIRE` that make a missing card or a missing NVRTC a failure.
const CARD: &str = "cuda";
const NVRTC: &str = "nvrtc";

/// Opens the card. A machine without a card, driver or NVRTC must give an error, not a panic.
fn card() -> Option<Arc<dyn CudaDevice>> {
    match Card::open(0) {
        Ok(card) => Some(Arc::new(card)),
        Err(
            why @ (DeviceError::NoLibrary(_) | DeviceError::NoDevice(_) | DeviceError::Call { call: "cuInit", .. }),
        ) => {
            damper_testing::skip(CARD, why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn card_has_the_bits_of_core() {
    let Some(card) = card() else { return };
    for case in sums::cases(100, 500).into_iter().chain(sums::cases(100, 30_000)) {
        case.check(&card).unwrap();
    }
    noise::check(&card);
    step::check(&card);
    updates::check(&card);
    wiping::check_drawn(&card).unwrap();
    wiping::check(&card).unwrap();
}

#[test]
fn missing_card_is_an_error() {
    let Some(_) = card() else { return };
    assert!(matches!(Card::open(1000).err(), Some(DeviceError::NoDevice(_))));
}

// Without a card, NVRTC compiles the kernels for these architectures.
#[test]
fn nvrtc_compiles_the_kernels() {
    for architecture in ["sm_80", "sm_90"] {
        match cubin(architecture) {
            Ok(cubin) => assert_eq!(cubin[..4], *b"\x7fELF"),
            Err(why @ DeviceError::NoLibrary(_)) => damper_testing::skip(NVRTC, why),
            Err(error) => panic!("{error}"),
        }
    }
    if cubin("sm_90").is_ok() {
        assert!(matches!(cubin("sm_1"), Err(DeviceError::Compile(_))));
    }
}
