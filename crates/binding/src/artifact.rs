//! The files of a compiled model, checked and joined.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use metaneff_schema::metaneff::MetaNeff;
use metaneff_schema::neff::{Neff, NeffError, ParseOptions};
use metaneff_schema::script::{ScriptArchive, ScriptError, ScriptModel};
use metaneff_schema::{DecodeError, Document, EditError};

use crate::contract::{Contract, ContractError, ContractOptions, Finding, JoinError, Slot};

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
    /// The metaneff as it was read, where it was read.
    document: Option<Document>,
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
    /// The metaneff cannot be edited as asked.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The file is no saved TorchScript module with a compiled model.
    #[error(transparent)]
    Script(Box<ScriptError>),
    /// The contract was made without a metaneff, so there is nothing to edit.
    #[error("the contract was made without a metaneff, which could be edited")]
    NoMetaneff,
}

impl From<ScriptError> for ArtifactError {
    fn from(error: ScriptError) -> Self {
        Self::Script(Box::new(error))
    }
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
        let document = Document::parse(metaneff)?;
        let mut message = document.message()?;
        let program = Neff::parse(neff.clone(), &ParseOptions::default())?;
        if message.serialized_graph_def.is_empty()
            && let Some(graph) = program.graph()
        {
            message.serialized_graph_def = graph.clone();
        }
        let contract = Contract::new(&message, options)?.join(&program)?;
        Ok(Self {
            neff,
            contract,
            document: Some(document),
        })
    }

    /// Takes a compiled model out of a saved TorchScript file.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_script(
        model: &ScriptModel,
        options: &ContractOptions,
    ) -> Result<Self, ArtifactError> {
        Self::from_bytes_with(model.neff.clone(), model.metaneff.clone(), options)
    }

    /// Reads the compiled models of a saved TorchScript file (`.pt`), each with
    /// its name; see [`ScriptArchive`]. torch is not needed.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::Script`] if the file is none, or holds no model; else as
    /// [`open`](Self::open).
    pub fn open_script(
        path: impl AsRef<Path>,
        options: &ContractOptions,
    ) -> Result<Vec<(String, Self)>, ArtifactError> {
        let archive = ScriptArchive::open(path)?;
        if archive.models().is_empty() {
            return Err(ScriptError::NoModel.into());
        }
        let artifacts = archive.models().iter().map(|model| {
            let artifact = Self::from_script(model, options)?;
            Ok((model.name.clone(), artifact))
        });
        artifacts.collect()
    }

    /// Puts a contract beside a NEFF that is not looked into: one that only the
    /// runtime can read. The contract is compared with the model's tensors when
    /// the model is loaded.
    #[must_use]
    pub fn from_contract(neff: impl Into<Bytes>, contract: Contract) -> Self {
        Self {
            neff: neff.into(),
            contract,
            document: None,
        }
    }

    /// Puts a metaneff beside a NEFF that is not looked into.
    pub(crate) fn from_message(
        neff: impl Into<Bytes>,
        message: &MetaNeff,
        options: &ContractOptions,
    ) -> Result<Self, ContractError> {
        Ok(Self {
            document: Some(Document::of(message)),
            ..Self::from_contract(neff, Contract::new(message, options)?)
        })
    }

    /// An artifact whose metaneff is edited: how it is loaded, which slots take
    /// part in batches, whether aliased outputs are returned.
    ///
    /// Bytes that an edit does not concern stay as they are, unknown fields
    /// included, and the graph is neither decoded nor copied. The result has a
    /// contract of its own: tensors of the old one do not fit it.
    ///
    /// Source: the reference page, section 6.
    ///
    /// # Errors
    ///
    /// [`ArtifactError::Edit`] with what the edit answers,
    /// [`ArtifactError::NoMetaneff`].
    ///
    /// # Examples
    ///
    /// ```
    /// use metaneff_binding::testing::add_model;
    ///
    /// let artifact = add_model();
    /// let lazy = artifact.edit(|metaneff| {
    ///     metaneff.set_lazy_load(true);
    ///     metaneff.set_dynamic_batching_mixed(&[true, true], &[true])
    /// })?;
    /// assert!(lazy.contract().loads_lazily());
    /// assert!(lazy.contract().slot(0)?.has_dynamic_batch());
    /// assert!(!artifact.contract().loads_lazily());
    /// # Ok::<(), metaneff_binding::Error>(())
    /// ```
    pub fn edit(
        &self,
        edit: impl FnOnce(&mut Document) -> Result<(), EditError>,
    ) -> Result<Self, ArtifactError> {
        let mut document = self.document.clone().ok_or(ArtifactError::NoMetaneff)?;
        edit(&mut document)?;
        let contract = self.contract.with_flags_of(&document.message()?);
        Ok(Self {
            neff: self.neff.clone(),
            contract,
            document: Some(document),
        })
    }

    /// An artifact whose slots all take part in batches, or none; scalars never
    /// do. See [`edit`](Self::edit).
    ///
    /// # Errors
    ///
    /// As [`edit`](Self::edit).
    pub fn with_dynamic_batching(&self, value: bool) -> Result<Self, ArtifactError> {
        let flags = |slots: &[Slot]| -> Vec<bool> {
            let flags = slots.iter().map(|slot| value && slot.shape().rank() > 0);
            flags.collect()
        };
        let inputs = flags(self.contract.inputs());
        let outputs = flags(self.contract.outputs());
        self.edit(|metaneff| metaneff.set_dynamic_batching_mixed(&inputs, &outputs))
    }

    /// The metaneff with its edits, to be written; `None` if the contract was
    /// made without one.
    #[must_use]
    pub fn metaneff(&self) -> Option<&Document> {
        self.document.as_ref()
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
