//! The files of a compiled model, checked and joined.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use metaneff_schema::neff::{Neff, NeffError, ParseOptions};
use metaneff_schema::{DecodeError, decode_metaneff};

use crate::contract::{Contract, ContractError, ContractOptions, Finding, JoinError};

/// A NEFF and its contract, which belong together.
///
/// # Examples
///
/// ```no_run
/// use metaneff_binding::Artifact;
///
/// let artifact = Artifact::open("model.neff", "model.metaneff")?;
/// for slot in artifact.contract().inputs() {
///     println!("{slot}, variable {}", slot.var_id());
/// }
/// # Ok::<(), metaneff_binding::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Artifact {
    neff: Bytes,
    contract: Contract,
}

/// Why the files of a model were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtifactError {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The metaneff is no message.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The NEFF is refused by one of the runtime's gates.
    #[error(transparent)]
    Neff(#[from] NeffError),
    /// The metaneff is no contract.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The contract and the NEFF do not belong together.
    #[error(transparent)]
    Join(#[from] JoinError),
}

impl Artifact {
    /// Reads a NEFF and a metaneff; strict.
    ///
    /// # Errors
    ///
    /// [`ArtifactError`] says which file, or all that is wrong with the contract,
    /// or every difference between the two.
    pub fn open(neff: impl AsRef<Path>, metaneff: impl AsRef<Path>) -> Result<Self, ArtifactError> {
        Self::open_with(neff, metaneff, &ContractOptions::new())
    }

    /// Reads a NEFF and a metaneff.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(
        neff: impl AsRef<Path>,
        metaneff: impl AsRef<Path>,
        options: &ContractOptions,
    ) -> Result<Self, ArtifactError> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map(Bytes::from)
                .map_err(|source| ArtifactError::Io {
                    path: path.to_owned(),
                    source,
                })
        };
        Self::from_bytes_with(read(neff.as_ref())?, read(metaneff.as_ref())?, options)
    }

    /// Takes a NEFF and a metaneff from memory; strict.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_bytes(
        neff: impl Into<Bytes>,
        metaneff: impl Into<Bytes>,
    ) -> Result<Self, ArtifactError> {
        Self::from_bytes_with(neff, metaneff, &ContractOptions::new())
    }

    /// Takes a NEFF and a metaneff from memory.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_bytes_with(
        neff: impl Into<Bytes>,
        metaneff: impl Into<Bytes>,
        options: &ContractOptions,
    ) -> Result<Self, ArtifactError> {
        let neff = neff.into();
        let mut message = decode_metaneff(metaneff)?;
        let program = Neff::parse(neff.clone(), &ParseOptions::default())?;
        if message.serialized_graph_def.is_empty()
            && let Some(graph) = program.graph()
        {
            message.serialized_graph_def = graph.clone();
        }
        let contract = Contract::new(&message, options)?.join(&program)?;
        Ok(Self::from_contract(neff, contract))
    }

    /// Puts a contract beside a NEFF that is not looked into: one that only the
    /// runtime can read. The contract is compared with the model's tensors when
    /// the model is loaded.
    #[must_use]
    pub fn from_contract(neff: impl Into<Bytes>, contract: Contract) -> Self {
        Self {
            neff: neff.into(),
            contract,
        }
    }

    /// The contract.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The NEFF, header included.
    #[must_use]
    pub fn neff(&self) -> &Bytes {
        &self.neff
    }

    /// The graph that was compiled, an `HloModuleProto`, where the metaneff or
    /// the NEFF carries it.
    #[must_use]
    pub fn graph(&self) -> Option<&Bytes> {
        self.contract.graph()
    }

    /// What a lenient reading tolerated, and what is harmless.
    #[must_use]
    pub fn warnings(&self) -> &[Finding] {
        self.contract.warnings()
    }
}
