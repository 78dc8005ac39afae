//! Sealing: XChaCha20-Poly1305 with the platform's key and a random nonce of 24 bytes.
//!
//! ```text
//! [ message | nonce, 24 bytes | tag, 16 bytes ]
//! ```
//!
//! The kind of a blob is authenticated with it, so a ledger is never accepted as a state. A seal cannot show which of
//! two blobs is newer. The counter does.

use crate::platform::{NONCE, OVERHEAD, Platform, Refused, TAG};
use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};

/// Kind of a blob.
pub enum Label {
    /// Charges.
    Ledger,
    /// Parameters and momentum.
    State,
}

impl Label {
    fn bytes(&self) -> &'static [u8] {
        match self {
            Self::Ledger => b"damper example 1, ledger",
            Self::State => b"damper example 1, state",
        }
    }
}

fn cipher(platform: &mut impl Platform) -> Result<XChaCha20Poly1305, Refused> {
    Ok(XChaCha20Poly1305::new(&platform.sealing_key()?.into()))
}

/// Seals the message before the last [`OVERHEAD`] bytes of `blob`, in place.
pub fn seal(platform: &mut impl Platform, label: Label, blob: &mut [u8]) -> Result<(), Refused> {
    let (message, tail) = blob.split_at_mut_checked(blob.len().wrapping_sub(OVERHEAD)).ok_or(Refused)?;
    let mut nonce = [0; NONCE];
    platform.fill(&mut nonce)?;
    let tag =
        cipher(platform)?.encrypt_inout_detached(&nonce.into(), label.bytes(), message.into()).map_err(|_| Refused)?;
    tail.iter_mut().zip(nonce.iter().chain(&tag)).for_each(|(to, byte)| *to = *byte);
    Ok(())
}

/// Opens a blob in place and returns the message.
pub fn open<'a>(platform: &mut impl Platform, label: Label, blob: &'a mut [u8]) -> Result<&'a mut [u8], Refused> {
    let (message, tail) = blob.split_at_mut_checked(blob.len().wrapping_sub(OVERHEAD)).ok_or(Refused)?;
    let (nonce, tag) = tail.split_at(NONCE);
    let nonce: [u8; NONCE] = nonce.try_into().map_err(|_| Refused)?;
    let tag: [u8; TAG] = tag.try_into().map_err(|_| Refused)?;
    cipher(platform)?
        .decrypt_inout_detached(&nonce.into(), label.bytes(), (&mut *message).into(), &tag.into())
        .map_err(|_| Refused)?;
    Ok(message)
}
