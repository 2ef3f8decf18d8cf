//! NEFFs that are too large to be read whole: their members are passed over but
//! for the manifests.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use metaneff_schema::neff::{HEADER_SIZE, NeffHeader, PackageKind};

/// Bytes of a manifest, or of a member's long name, that are kept.
const KEPT: u64 = 64 << 20;

/// A NEFF with the members that are small and named by others; all others are
/// there without their contents.
pub(super) struct Outline {
    /// The header as it is in the file.
    pub(super) header: NeffHeader,
    /// A file that reads as the NEFF does, its package a plain tar.
    pub(super) bytes: Vec<u8>,
    /// The real sizes of the members, in their order.
    pub(super) sizes: Vec<u64>,
}

pub(super) fn outline(path: &Path) -> io::Result<Outline> {
    let mut file = BufReader::new(File::open(path)?);
    let mut header = Vec::new();
    file.by_ref()
        .take(HEADER_SIZE as u64)
        .read_to_end(&mut header)?;
    let header = NeffHeader::read(&header).map_err(io::Error::other)?;
    let (tar, sizes) = match header.package {
        PackageKind::Tar => keep_manifests(file)?,
        _ => keep_manifests(MultiGzDecoder::new(file))?,
    };
    let mut shown = header.clone();
    shown.package = PackageKind::Tar;
    shown.data_size = tar.len() as u64;
    let mut bytes = shown.to_bytes().to_vec();
    bytes.extend_from_slice(&tar);
    Ok(Outline {
        header,
        bytes,
        sizes,
    })
}

/// The tar with the contents of manifests and long names only, and the sizes of
/// its files.
fn keep_manifests(reader: impl Read) -> io::Result<(Vec<u8>, Vec<u64>)> {
    let mut archive = tar::Archive::new(reader);
    let mut out = tar::Builder::new(Vec::new());
    let mut sizes = Vec::new();
    // Raw entries: the interpreting iterator would read a name of any size.
    for entry in archive.entries()?.raw(true) {
        let entry = entry?;
        let mut header = entry.header().clone();
        let (kind, size) = (header.entry_type(), header.entry_size()?);
        let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
        let kept = size <= KEPT && (!kind.is_file() || name.ends_with(".json"));
        if kind.is_file() {
            sizes.push(size);
        }
        if kept {
            out.append(&header, entry.take(size))?;
        } else {
            header.set_size(0);
            header.set_cksum();
            out.append(&header, io::empty())?;
        }
    }
    Ok((out.into_inner()?, sizes))
}

#[cfg(test)]
mod tests {
    use metaneff_schema::neff::{Neff, ParseOptions};

    use super::*;

    #[test]
    fn an_outline_reads_as_the_whole_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/quickstart");
        let whole = std::fs::read(root.join("model.neff")).unwrap();
        let path = folder.path().join("model.neff");
        std::fs::write(&path, &whole).unwrap();
        let outline = outline(&path).unwrap();
        let whole = Neff::parse(whole, &ParseOptions::default()).unwrap();
        let parsed = Neff::parse(outline.bytes, &ParseOptions::default()).unwrap();
        assert_eq!(&outline.header, whole.header());
        assert_eq!(parsed.variables(), whole.variables());
        let names = |neff: &Neff| -> Vec<String> {
            neff.members()
                .iter()
                .map(|member| member.name.clone())
                .collect()
        };
        assert_eq!(names(&parsed), names(&whole));
        let sizes: Vec<_> = whole.members().iter().map(|member| member.size).collect();
        assert_eq!(outline.sizes, sizes);
    }
}
