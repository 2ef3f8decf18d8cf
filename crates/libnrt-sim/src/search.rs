//! The graph of a NEFF that carries none: `METANEFF_SIM_GRAPH_PATH`.
//!
//! The folders of the path are searched, with all that is below them, for a file
//! with the same NEFF. The graph is what a compiler or a framework left beside
//! it: the layout of a compile cache, of a tracer's working folder, or a metaneff.

use std::fs::{self, File};
use std::io::{Read, Take};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use metaneff_backend_sim::GraphSource;
use metaneff_schema::neff::{HEADER_SIZE, NeffHeader};
use metaneff_schema::{decode_hlo, decode_metaneff};

use crate::log;

/// Folders below one of the path's that are still looked into.
const DEPTH: usize = 8;

/// Files and folders that one search looks at.
const ENTRIES: usize = 200_000;

/// Bytes that a sidecar may have, unpacked.
const LARGEST: u64 = 2 << 30;

/// What a sidecar is called, where `*` stands for the NEFF's name without its
/// ending; the first that is there and can be read counts.
const SIDECARS: &[&str] = &[
    "*.hlo_module.pb",
    "*.hlo_module.pb.gz",
    "model.hlo_module.pb",
    "model.hlo_module.pb.gz",
    "model.hlo.pb",
    "model.hlo.pb.gz",
    "*.hlo",
    "*.hlo.pb",
    "graph.hlo",
    "model/graph.hlo",
    "*.metaneff",
    "*.metaneff.pb",
    "metaneff",
    "metaneff.pb",
];

/// The folders to search.
#[derive(Debug)]
pub(crate) struct Search {
    path: Vec<PathBuf>,
}

/// What a search came upon.
#[derive(Debug, Default)]
struct Seen {
    entries: usize,
    neffs: usize,
    same: Vec<PathBuf>,
    unusable: Vec<String>,
}

impl Search {
    pub(crate) fn new(path: Vec<PathBuf>) -> Self {
        Self { path }
    }
}

impl GraphSource for Search {
    fn graph(&self, neff: &Bytes) -> Result<Bytes, String> {
        let mut seen = Seen::default();
        for folder in &self.path {
            if let Some(graph) = seen.folder(folder, neff, DEPTH) {
                return Ok(graph);
            }
        }
        Err(self.report(&seen))
    }
}

impl Search {
    fn report(&self, seen: &Seen) -> String {
        let looked = format!(
            "looked for a file of the same hash with one of {} beside it",
            SIDECARS.join(", ")
        );
        if self.path.is_empty() {
            return format!("{looked}, nowhere, because METANEFF_SIM_GRAPH_PATH is not set");
        }
        let path: Vec<_> = self.path.iter().map(|p| p.display().to_string()).collect();
        let mut text = format!(
            "{looked}, in {}: {} NEFFs among {} entries",
            path.join(", "),
            seen.neffs,
            seen.entries
        );
        if seen.entries >= ENTRIES {
            text.push_str(", where the search ended");
        }
        match seen.same.as_slice() {
            [] => text.push_str(", none of the same hash"),
            same => {
                for path in same {
                    text.push_str(&format!(", {} is the same", path.display()));
                }
                for detail in &seen.unusable {
                    text.push_str(&format!("; {detail}"));
                }
            }
        }
        text
    }
}

impl Seen {
    fn folder(&mut self, folder: &Path, neff: &Bytes, depth: usize) -> Option<Bytes> {
        let mut entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
        // The same files give the same answer, in whatever order they are listed.
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut folders = Vec::new();
        for entry in entries {
            if self.entries >= ENTRIES {
                return None;
            }
            self.entries += 1;
            let path = entry.path();
            let Ok(kind) = fs::metadata(&path) else {
                continue;
            };
            if kind.is_dir() {
                folders.push(path);
            } else if let Some(stem) = stem(&path) {
                self.neffs += 1;
                if same(&path, neff) {
                    log::info(format_args!("{} is the NEFF", path.display()));
                    if let Some(graph) = self.beside(&path, &stem) {
                        return Some(graph);
                    }
                    self.same.push(path);
                }
            }
        }
        let depth = depth.checked_sub(1)?;
        folders
            .iter()
            .find_map(|folder| self.folder(folder, neff, depth))
    }

    /// The graph beside the NEFF at `path`.
    fn beside(&mut self, path: &Path, stem: &str) -> Option<Bytes> {
        let folder = path.parent()?;
        for name in SIDECARS {
            let sidecar = folder.join(name.replace('*', stem));
            let Ok(file) = File::open(&sidecar) else {
                continue;
            };
            match read(file).and_then(graph_in) {
                Ok(graph) => {
                    log::info(format_args!("its graph is {}", sidecar.display()));
                    return Some(graph);
                }
                Err(detail) => self
                    .unusable
                    .push(format!("{} {detail}", sidecar.display())),
            }
        }
        None
    }
}

/// The name of a NEFF's file without its ending; `None` for other files.
fn stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stem = name.strip_suffix(".neff")?;
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// The file's contents, unpacked if they are packed.
fn open(file: File) -> Result<Take<Box<dyn Read>>, String> {
    let mut start = [0; 2];
    let mut peek = &file;
    let packed = peek.read_exact(&mut start).is_ok() && start == [0x1f, 0x8b];
    std::io::Seek::rewind(&mut peek).map_err(|error| format!("cannot be read: {error}"))?;
    let reader: Box<dyn Read> = if packed {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    Ok(reader.take(LARGEST))
}

fn read(file: File) -> Result<Bytes, String> {
    let mut bytes = Vec::new();
    let mut reader = open(file)?;
    let read = reader.read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read: {error}"))?;
    if reader.limit() == 0 {
        return Err(format!("has more than {LARGEST} bytes"));
    }
    Ok(bytes.into())
}

/// The module that a sidecar is or has in it.
fn graph_in(bytes: Bytes) -> Result<Bytes, String> {
    let as_module = match decode_hlo(bytes.clone()) {
        Ok(module) if !module.computations.is_empty() => return Ok(bytes),
        Ok(_) => "it has no computation".to_owned(),
        Err(error) => error.to_string(),
    };
    match decode_metaneff(bytes).map(|metaneff| metaneff.serialized_graph_def) {
        Ok(graph) if !graph.is_empty() => Ok(graph),
        _ => Err(format!("is no HLO module ({as_module}) and has none")),
    }
}

/// Whether the file has the same NEFF: the same hash of as many bytes, or the
/// same bytes where it has no hash.
fn same(path: &Path, neff: &Bytes) -> bool {
    let opened = File::open(path).map_err(drop);
    let Ok(mut reader) = opened.and_then(|file| open(file).map_err(drop)) else {
        return false;
    };
    let mut other = Vec::new();
    let header = u64::try_from(HEADER_SIZE).unwrap_or(u64::MAX);
    if reader
        .by_ref()
        .take(header)
        .read_to_end(&mut other)
        .is_err()
    {
        return false;
    }
    if let (Ok(wanted), Ok(found)) = (NeffHeader::read(neff), NeffHeader::read(&other))
        && wanted.hash != [0; 32]
    {
        return (wanted.hash, wanted.data_size) == (found.hash, found.data_size);
    }
    let mut rest = neff.as_ref();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match rest.strip_prefix(other.as_slice()) {
            Some(left) => rest = left,
            None => return false,
        }
        match reader.read(&mut chunk) {
            Ok(0) => return rest.is_empty(),
            Ok(count) => other = chunk[..count].to_vec(),
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A module with one computation of one name, as protobuf.
    const MODULE: &[u8] = b"\x0a\x01m\x1a\x03\x0a\x01c";

    fn neff(seed: u8) -> Bytes {
        let mut bytes = vec![seed; 3000];
        bytes[..1024].fill(0);
        bytes.into()
    }

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_cache_is_searched_whatever_is_packed() {
        let root = tempfile::tempdir().unwrap();
        let entry = root.path().join("neuronxcc-2.0/MODULE_1+2");
        fs::create_dir_all(&entry).unwrap();
        fs::write(root.path().join("other.neff"), neff(7)).unwrap();
        let search = Search::new(vec!["/nowhere".into(), root.path().into()]);
        let error = search.graph(&neff(1)).unwrap_err();
        assert!(
            error.contains("1 NEFFs among 3 entries, none of the same hash"),
            "{error}"
        );
        fs::write(entry.join("model.neff.gz"), pack(&neff(1))).unwrap();
        let error = search.graph(&neff(1)).unwrap_err();
        assert!(error.contains("model.neff.gz is the same"), "{error}");
        fs::write(entry.join("model.hlo_module.pb"), b"broken").unwrap();
        let error = search.graph(&neff(1)).unwrap_err();
        assert!(
            error.contains("model.hlo_module.pb is no HLO module"),
            "{error}"
        );
        fs::write(entry.join("model.hlo_module.pb.gz"), pack(MODULE)).unwrap();
        assert_eq!(search.graph(&neff(1)).unwrap(), MODULE);
        assert!(search.graph(&neff(2)).is_err());
    }

    #[test]
    fn a_metaneff_has_the_graph_in_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.neff"), neff(1)).unwrap();
        let mut metaneff = vec![0x22, u8::try_from(MODULE.len()).unwrap()];
        metaneff.extend_from_slice(MODULE);
        fs::write(root.path().join("a.metaneff"), metaneff).unwrap();
        let search = Search::new(vec![root.path().into()]);
        assert_eq!(search.graph(&neff(1)).unwrap(), MODULE);
    }

    #[test]
    fn a_sidecar_of_each_name_counts_alone() {
        let documented = include_str!("../README.md");
        for name in SIDECARS {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
            for neff_name in ["net.v1.neff", "net.v1.neff.gz"] {
                let root = tempfile::tempdir().unwrap();
                let sidecar = root.path().join(name.replace('*', "net.v1"));
                fs::create_dir_all(sidecar.parent().unwrap()).unwrap();
                let packed = |path: &str, bytes: &[u8]| match path.ends_with(".gz") {
                    true => pack(bytes),
                    false => bytes.to_vec(),
                };
                let neff_bytes = packed(neff_name, &neff(1));
                fs::write(root.path().join(neff_name), neff_bytes).unwrap();
                let search = Search::new(vec![root.path().into()]);
                // Another model's sidecar is none of this one.
                fs::write(root.path().join("other.hlo"), MODULE).unwrap();
                assert!(search.graph(&neff(1)).is_err(), "{name}");
                let metaneff = [&[0x22, 8][..], MODULE].concat();
                let content = match name.contains("metaneff") {
                    true => metaneff.as_slice(),
                    false => MODULE,
                };
                fs::write(&sidecar, packed(name, content)).unwrap();
                assert_eq!(search.graph(&neff(1)).unwrap(), MODULE, "{name}");
            }
        }
    }

    #[test]
    fn without_a_path_the_error_says_so() {
        let error = Search::new(Vec::new()).graph(&neff(1)).unwrap_err();
        assert!(
            error.contains("METANEFF_SIM_GRAPH_PATH is not set"),
            "{error}"
        );
    }

    #[test]
    fn the_hash_decides_where_there_is_one() {
        let root = tempfile::tempdir().unwrap();
        let mut stored = neff(1).to_vec();
        for (at, number) in [(0, 1), (8, 1024), (16, 1976)] {
            stored[at..at + 8].copy_from_slice(&u64::to_le_bytes(number));
        }
        stored[0x0AC..0x0AC + 32].fill(9);
        let path = root.path().join("a.neff");
        fs::write(&path, &stored).unwrap();
        let mut other = stored.clone();
        other[220] = b'x';
        assert!(same(&path, &other.clone().into()));
        other[0x0AC] = 8;
        assert!(!same(&path, &other.into()));
    }
}
