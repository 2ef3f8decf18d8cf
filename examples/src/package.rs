//! The folder of an example's model: artefacts, tensors, goldens.

use std::path::{Path, PathBuf};

use metaneff_binding::{
    Artifact, ArtifactError, HostTensor, Role, Tensor, ValidateError, Validated,
};
use serde::Deserialize;

use crate::npy::{NpyError, read_npy};

/// What `signature.json` says, as far as the examples need it.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Signature {
    /// The model's name.
    pub name: String,
    /// How much a value may differ from the golden one.
    pub tolerance: Tolerance,
}

/// How much a value may differ from the golden one: `atol + rtol * |golden|`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[non_exhaustive]
pub struct Tolerance {
    /// The relative part.
    pub rtol: f32,
    /// The absolute part.
    pub atol: f32,
}

/// Why a model's folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// The signature cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Signature {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The artefacts are refused.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// An array cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// An array does not fit its slot.
    #[error(transparent)]
    Validate(#[from] ValidateError),
}

/// A model's folder.
#[derive(Clone, Debug)]
pub struct Package {
    folder: PathBuf,
    signature: Signature,
}

impl Package {
    /// Opens a folder; a name without a slash is one of the repository's
    /// `models`.
    ///
    /// # Errors
    ///
    /// [`PackageError::Signature`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, PackageError> {
        let mut folder = folder.as_ref().to_owned();
        if folder.components().count() == 1 && !folder.exists() {
            let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
            folder = models.join(folder);
        }
        let path = folder.join("signature.json");
        let failed = |source| PackageError::Signature {
            path: path.clone(),
            source,
        };
        let text = std::fs::read(&path).map_err(|source| failed(source.into()))?;
        let signature = serde_json::from_slice(&text).map_err(|source| failed(source.into()))?;
        Ok(Self { folder, signature })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The signature.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The NEFF and its contract.
    ///
    /// # Errors
    ///
    /// [`PackageError::Artifact`].
    pub fn artifact(&self) -> Result<Artifact, PackageError> {
        let file = |name| self.folder.join(name);
        Ok(Artifact::open(file("model.neff"), file("model.metaneff"))?)
    }

    /// The array of a file.
    ///
    /// # Errors
    ///
    /// [`PackageError::Npy`].
    pub fn array(&self, file: &str) -> Result<HostTensor<'static>, PackageError> {
        Ok(read_npy(self.folder.join(file))?)
    }

    /// The weights of a contract, from `weights/KEY.npy`.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a file is missing or does not fit its slot.
    pub fn weights(
        &self,
        artifact: &Artifact,
    ) -> Result<Vec<Tensor<Validated<'static>>>, PackageError> {
        let mut weights = Vec::new();
        for slot in artifact.contract().inputs() {
            if slot.role() == Role::Weight {
                let key = String::from_utf8_lossy(slot.checkpoint_key().unwrap_or_default());
                let array = self.array(&format!("weights/{key}.npy"))?;
                weights.push(
                    slot.validate(array)
                        .map_err(|rejected| rejected.into_reason())?,
                );
            }
        }
        Ok(weights)
    }
}

impl Tolerance {
    /// The largest difference between two arrays, and whether every value is
    /// within this tolerance. Arrays of different lengths never are.
    #[must_use]
    pub fn compare(self, found: &[f32], golden: &[f32]) -> (f32, bool) {
        let mut largest = 0_f32;
        let mut within = found.len() == golden.len();
        for (found, golden) in found.iter().zip(golden) {
            let difference = (found - golden).abs();
            // A NaN is greater than no tolerance and less than none.
            within &= difference <= self.rtol.mul_add(golden.abs(), self.atol);
            largest = if difference.is_nan() {
                f32::NAN
            } else {
                largest.max(difference)
            };
        }
        (largest, within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_judged() {
        let tolerance = Tolerance {
            rtol: 0.1,
            atol: 0.01,
        };
        assert_eq!(tolerance.compare(&[1.0, 2.0], &[1.0, 2.0]), (0.0, true));
        assert_eq!(tolerance.compare(&[1.25], &[1.0]), (0.25, false));
        assert!(!tolerance.compare(&[1.0], &[1.0, 2.0]).1);
        let (largest, within) = tolerance.compare(&[f32::NAN], &[1.0]);
        assert!(largest.is_nan() && !within);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = Package::open("no/such/folder").unwrap_err();
        assert!(
            matches!(error, PackageError::Signature { path, .. } if path.starts_with("no/such"))
        );
    }
}
