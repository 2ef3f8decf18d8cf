//! How the cases' files reach a backend: as they were written, or rebuilt from
//! what a reader understood of them.

use std::cell::Cell;

use bytes::Bytes;
use metaneff_schema::neff::{Neff, NeffBuilder, ParseOptions};
use metaneff_schema::{decode_hlo, decode_metaneff};
use prost::Message as _;

use crate::case::Failure;

/// How files reach the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packing {
    /// The bytes that were written.
    #[default]
    AsWritten,
    /// Graph, NEFF and metaneff are decoded and encoded again before each load.
    /// What a reader loses or a writer garbles then shows as a failing case.
    Recoded,
}

thread_local! {
    /// The packing of the case that this thread runs.
    static CURRENT: Cell<Packing> = const { Cell::new(Packing::AsWritten) };
}

impl Packing {
    /// Runs a case whose files are packed so, if it makes them on this thread.
    pub(crate) fn during<R>(self, case: impl FnOnce() -> R) -> R {
        struct Restore(Packing);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _restore = Restore(CURRENT.replace(self));
        case()
    }

    /// The packing of the case that this thread runs.
    pub(crate) fn current() -> Self {
        CURRENT.get()
    }

    /// A graph on its way into a NEFF or a metaneff.
    pub(crate) fn graph(self, bytes: Bytes) -> Result<Bytes, Failure> {
        match self {
            Self::AsWritten => Ok(bytes),
            Self::Recoded => Ok(decode_hlo(bytes)?.encode_to_vec().into()),
        }
    }

    /// A NEFF on its way to a load.
    pub(crate) fn neff(self, bytes: Bytes) -> Result<Bytes, Failure> {
        if self == Self::AsWritten {
            return Ok(bytes);
        }
        let neff = Neff::parse(bytes.clone(), &ParseOptions::default())?;
        let Some(graph) = neff.graph() else {
            return Ok(bytes);
        };
        let header = neff.header();
        let (major, minor) = header.version;
        Ok(NeffBuilder::from_hlo(self.graph(graph.clone())?)?
            .name(header.name.as_str())
            .package(header.package)
            .feature_bits(header.feature_bits)
            .version(major, minor)
            .cores(header.requested_cores, header.logical_core_size)
            .build())
    }

    /// A metaneff on its way to a load.
    pub(crate) fn metaneff(self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        if self == Self::AsWritten {
            return Ok(bytes);
        }
        let mut message = decode_metaneff(bytes)?;
        if !message.serialized_graph_def.is_empty() {
            message.serialized_graph_def = self.graph(message.serialized_graph_def)?;
        }
        Ok(message.encode_to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::subtract;

    #[test]
    fn a_packing_holds_for_its_case_also_when_that_panics() {
        assert_eq!(Packing::current(), Packing::AsWritten);
        let answer = std::panic::catch_unwind(|| {
            Packing::Recoded.during(|| {
                assert_eq!(Packing::current(), Packing::Recoded);
                panic!("a case");
            })
        });
        answer.unwrap_err();
        assert_eq!(Packing::current(), Packing::AsWritten);
    }

    #[test]
    fn a_neff_of_this_packer_is_rebuilt_byte_for_byte() {
        let artifact = subtract().unwrap();
        let neff = artifact.neff().clone();
        assert_eq!(Packing::Recoded.neff(neff.clone()).unwrap(), neff);
    }
}
