//! Members of a federation: each is a device with the key that signs its updates (Ed25519, RFC 8032).

use crate::FederationError;
use damper_files::{create_new_private, hex, unhex};
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, EncodePrivateKey, KeypairBytes};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

/// Size of a signature in bytes.
pub(crate) const SIGNATURE: usize = 64;

/// A device in the plan. Its number is its position in the list, from 1.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// The public key, 64 hexadecimal digits.
    pub public_key: String,
    /// A name for the owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl Member {
    /// Returns the key, if it can verify signatures.
    fn key(&self) -> Option<VerifyingKey> {
        // Only lower case is valid, so a key has a single text form.
        let is_small = !self.public_key.contains(|digit: char| digit.is_ascii_uppercase());
        let bytes = unhex(&self.public_key).filter(|_| is_small)?;
        // A weak key has signatures that are valid for many messages.
        VerifyingKey::from_bytes(&bytes).ok().filter(|key| !key.is_weak())
    }

    /// Returns true if the key is usable.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.key().is_some()
    }

    /// Returns true if `signature` is the member's signature of `message` in `context`.
    #[must_use]
    pub fn signed(&self, context: &[u8], message: &[u8], signature: &[u8; SIGNATURE]) -> bool {
        let signature = Signature::from_bytes(signature);
        self.key().is_some_and(|key| key.verify_strict(&[context, message].concat(), &signature).is_ok())
    }
}

/// Parses a list of members. Each line has a public key and, after white space, a name. Empty lines and lines that
/// begin with `#` are skipped.
///
/// # Errors
///
/// A line has no public key.
pub fn members_of_text(text: &str) -> Result<Vec<Member>, FederationError> {
    let mut members = vec![];
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (public_key, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let member = Member { public_key: public_key.to_ascii_lowercase(), name: name.trim().into() };
        if !member.is_valid() {
            return Err(FederationError::Key(format!(
                "line {number}: not a public key; give the 64 hexadecimal digits that damper federation key prints"
            )));
        }
        members.push(member);
    }
    Ok(members)
}

/// The secret key of a device. It is erased from memory on drop.
pub struct MemberKey(SigningKey);

impl MemberKey {
    /// Creates a key from the operating system's randomness in the new file `file` (PKCS #8, PEM). Only its owner may
    /// read it.
    ///
    /// # Errors
    ///
    /// The file exists or cannot be written, or randomness is not available.
    pub fn create(file: &Path) -> Result<Self, FederationError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(|error| {
            FederationError::Key(format!("the operating system gave no randomness ({error}); try again"))
        })?;
        let key = SigningKey::from_bytes(&seed);
        // Version 1 without the public key, which OpenSSL 3.0 can read.
        let bytes = KeypairBytes { secret_key: key.to_bytes(), public_key: None };
        let pem = bytes.to_pkcs8_pem(LineEnding::LF).map_err(|error| FederationError::Key(error.to_string()))?;
        create_new_private(file, pem.as_bytes())?;
        Ok(Self(key))
    }

    /// Reads the key in `file`: PKCS #8 in PEM, in the format of [`create`](Self::create) and `openssl genpkey
    /// -algorithm ed25519`.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not such a key.
    pub fn read(file: &Path) -> Result<Self, FederationError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => FederationError::Key(format!(
                "{}: there is no such file; give this device's key, which damper federation key makes",
                file.display()
            )),
            _ => FederationError::Io { file: file.into(), error },
        };
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(file).map_err(failed)?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(FederationError::Key(format!(
                    "{}: others on this machine can read it, and would speak for the device; chmod 600",
                    file.display()
                )));
            }
        }
        let text = Zeroizing::new(fs::read_to_string(file).map_err(failed)?);
        SigningKey::from_pkcs8_pem(&text).map(Self).map_err(|_| {
            FederationError::Key(format!(
                "{}: not a device's key; make one with damper federation key, and plan with its public key",
                file.display()
            ))
        })
    }

    /// Returns the public key, 64 hexadecimal digits.
    #[must_use]
    pub fn public(&self) -> String {
        hex(self.0.verifying_key().as_bytes())
    }

    /// Signs `message` in `context`.
    #[must_use]
    pub fn sign(&self, context: &[u8], message: &[u8]) -> [u8; SIGNATURE] {
        self.0.sign(&[context, message].concat()).to_bytes()
    }
}

impl std::fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemberKey of {}", self.public())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    // Test 2 of RFC 8032, section 7.1.
    #[test]
    fn signature_is_that_of_rfc_8032() {
        let seed = unhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let key = MemberKey(SigningKey::from_bytes(&seed.try_into().unwrap()));
        let public = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
        let signature = unhex(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        );
        assert_eq!((key.public(), key.sign(b"", b"\x72").to_vec()), (public.into(), signature));
    }

    #[test]
    fn key_file_is_private_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("device.key");
        let key = MemberKey::create(&file).unwrap();
        let again = MemberKey::read(&file).unwrap();
        assert_eq!(key.public(), again.public());
        let member = Member { public_key: key.public(), name: String::new() };
        let signature = again.sign(b"a", b"bc");
        assert!(member.signed(b"a", b"bc", &signature) && !member.signed(b"a", b"bd", &signature));
        assert!(MemberKey::create(&file).unwrap_err().to_string().contains("is there already"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            mode(0o644);
            assert!(MemberKey::read(&file).unwrap_err().to_string().contains("chmod 600"));
            mode(0o600);
        }
        fs::write(&file, "x").unwrap();
        assert!(MemberKey::read(&file).unwrap_err().to_string().contains("not a device's key"));
    }

    #[test]
    fn list_of_members_is_read() {
        let one = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";
        let found = members_of_text(&format!("# clinics\n{one}  St. Mary \n\n{}\n", one.to_uppercase())).unwrap();
        assert_eq!((found.len(), found[0].name.as_str(), &*found[1].public_key), (2, "St. Mary", one));
        // A point of small order. Its owner could sign everything.
        let weak = "0100000000000000000000000000000000000000000000000000000000000000";
        for bad in ["zz", &one[1..], weak, "+".repeat(64).as_str()] {
            let message = members_of_text(&format!("\n{bad} x")).unwrap_err().to_string();
            assert!(message.starts_with("line 2: not a public key"), "{message}");
        }
    }
}
