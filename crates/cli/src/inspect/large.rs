//! NEFFs that are too large to be read whole: their members are passed over but
//! for the manifests.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use metaneff_schema::neff::{HEADER_SIZE, NeffError, NeffHeader, PackageKind};

/// Bytes of a manifest, or of a member's long name, that are kept.
const KEPT: u64 = 64 << 20;

/// Bytes that are kept in all, a block of the tar for each member included.
const BUDGET: u64 = 256 << 20;
const BLOCK: u64 = 512;

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
    let available = fs::metadata(path)?.len().saturating_sub(HEADER_SIZE as u64);
    if header.data_size > available {
        return Err(io::Error::other(NeffError::DataSize {
            found: header.data_size,
            available,
        }));
    }
    let (tar, sizes) = match header.package {
        PackageKind::Tar => keep_manifests(tar::Archive::new(file).entries()?)?,
        _ => keep_manifests(tar::Archive::new(MultiGzDecoder::new(file)).entries()?)?,
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
fn keep_manifests(entries: tar::Entries<'_, impl Read>) -> io::Result<(Vec<u8>, Vec<u64>)> {
    let mut out = tar::Builder::new(Vec::new());
    let mut sizes = Vec::new();
    let mut left = BUDGET;
    // Raw entries: the interpreting iterator would read a name of any size.
    for entry in entries.raw(true) {
        let entry = entry?;
        let mut header = entry.header().clone();
        let (kind, size) = (header.entry_type(), header.entry_size()?);
        let name = String::from_utf8_lossy(&header.path_bytes()).into_owned();
        // The compiler's wave graph is no member to a reader.
        let wave_graph = name.ends_with("wavegraph-bin.json");
        let manifest = name.ends_with(".json") && !wave_graph;
        let kept = size <= KEPT && (!kind.is_file() || manifest);
        if kind.is_file() && !wave_graph {
            sizes.push(size);
        }
        left = left
            .checked_sub(BLOCK + if kept { size } else { 0 })
            .ok_or_else(|| io::Error::other(format!("manifests of more than {BUDGET} bytes")))?;
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
    use metaneff_schema::neff::{Neff, NeffBuilder, ParseOptions};

    use super::*;

    #[test]
    fn an_outline_reads_as_the_whole_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.neff");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/quickstart");
        let hlo = fs::read(root.join("module.pb")).unwrap();
        for kind in [PackageKind::Tar, PackageKind::GzipTar] {
            let file = NeffBuilder::from_hlo(hlo.clone())
                .unwrap()
                .package(kind)
                .build();
            fs::write(&path, &file).unwrap();
            let outline = outline(&path).unwrap();
            let whole = Neff::parse(file.clone(), &ParseOptions::default()).unwrap();
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
            fs::write(&path, &file[..file.len() - 1]).unwrap();
            let error = super::outline(&path).err().unwrap().to_string();
            assert!(error.contains("data size is"), "{error}");
        }
    }
}
