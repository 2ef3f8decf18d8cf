//! NEFFs taken apart and put together again, with one thing changed.

use bytes::Bytes;
use metaneff_schema::neff::{Neff, NeffHeader, PackageKind, ParseOptions};
use serde_json::Value;

use crate::case::Failure;
use crate::graph::Graph;
use crate::models::pack;
use metaneff_schema::xla::PrimitiveType::F32;

/// The first manifest.
pub(crate) const ROOT: &str = "neff.json";
/// The manifest that `neff.json` names.
pub(crate) const KELF: &str = "kelf-a.json";
/// The variable table, which the kelf names.
pub(crate) const TABLE: &str = "sg00/def.json";

/// A NEFF as its members, in order.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) header: NeffHeader,
    pub(crate) members: Vec<(String, Vec<u8>)>,
}

impl Parts {
    /// Those of `input0 - input1` over `f32[2]`.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut graph = Graph::new();
        let a = graph.parameter(F32, &[2]);
        let b = graph.parameter(F32, &[2]);
        let difference = graph.elementwise("subtract", &[a, b]);
        Self::of(pack(graph.finish(&[difference]))?)
    }

    /// Those of a NEFF.
    pub(crate) fn of(file: Bytes) -> Result<Self, Failure> {
        let neff = Neff::parse(file, &ParseOptions::default())?;
        let read = |name: &String| -> Result<_, Failure> {
            Ok((name.clone(), neff.read_member(name)?.to_vec()))
        };
        Ok(Self {
            header: neff.header().clone(),
            members: neff
                .members()
                .iter()
                .map(|member| read(&member.name))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Without a member.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.members.retain(|(member, _)| member != name);
        self
    }

    /// With a member of other contents.
    pub(crate) fn with(mut self, name: &str, contents: impl Into<Vec<u8>>) -> Self {
        let contents = contents.into();
        match self.members.iter_mut().find(|(member, _)| member == name) {
            Some((_, old)) => *old = contents,
            None => self.members.push((name.to_owned(), contents)),
        }
        self
    }

    /// With a manifest changed as JSON.
    pub(crate) fn edit(self, name: &str, edit: impl FnOnce(&mut Value)) -> Result<Self, Failure> {
        let found = self.members.iter().find(|(member, _)| member == name);
        let (_, bytes) = found.ok_or_else(|| Failure::new(format!("no member `{name}`")))?;
        let mut value: Value = serde_json::from_slice(bytes)?;
        edit(&mut value);
        Ok(self.with(name, value.to_string()))
    }

    /// The file: header, and an archive without compression, whose hash no one
    /// asks for.
    pub(crate) fn build(mut self) -> Result<Bytes, Failure> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, contents) in &self.members {
            let mut header = tar::Header::new_gnu();
            header.set_size(contents.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, name, contents.as_slice())?;
        }
        let data = archive.into_inner()?;
        self.header.package = PackageKind::Tar;
        self.header.data_size = data.len() as u64;
        let mut file = self.header.to_bytes().to_vec();
        file.extend_from_slice(&data);
        Ok(file.into())
    }
}
