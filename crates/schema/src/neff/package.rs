//! The tar behind the header.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::header::{NeffHeader, PackageKind};
use super::{HEADER_SIZE, NeffError};

/// Longest name of a member; a longer one is cut off by no real packer.
const MAX_NAME: u64 = 4096;

/// One member of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Path inside the package, without a leading `./`.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
}

/// The package's bytes, as the header says that they are packed.
#[derive(Clone, Debug)]
pub(super) struct Package {
    kind: PackageKind,
    data: Bytes,
}

impl Package {
    /// The data that the header announces.
    pub(super) fn new(file: &Bytes, header: &NeffHeader) -> Result<Self, NeffError> {
        let available = (file.len() - HEADER_SIZE) as u64;
        let size = usize::try_from(header.data_size)
            .ok()
            .filter(|size| *size as u64 <= available)
            .ok_or(NeffError::DataSize {
                found: header.data_size,
                available,
            })?;
        let data = file.slice(HEADER_SIZE..HEADER_SIZE + size);
        Ok(Self {
            kind: header.package,
            data,
        })
    }

    /// Compares the data's hash with the header's.
    pub(super) fn check_hash(&self, header: &NeffHeader) -> Result<(), NeffError> {
        let found = hash(self.kind, &self.data);
        let (algorithm, length) = match self.kind {
            PackageKind::Tar => ("SHA-256", 32),
            PackageKind::GzipTar => ("MD5", 16),
        };
        if found[..length] == header.hash[..length] {
            return Ok(());
        }
        Err(NeffError::Hash {
            algorithm,
            expected: hex(&header.hash[..length]),
            found: hex(&found[..length]),
        })
    }

    /// Walks over the members. `keep` says of which the contents are wanted;
    /// together these may have `limit` bytes. The others are read past.
    pub(super) fn walk(
        &self,
        limit: u64,
        keep: impl FnMut(&str) -> bool,
        found: impl FnMut(Member, Option<Bytes>),
    ) -> Result<(), NeffError> {
        match self.kind {
            PackageKind::Tar => walk(&self.data[..], Some(&self.data), limit, keep, found),
            PackageKind::GzipTar => walk(
                MultiGzDecoder::new(&self.data[..]),
                None,
                limit,
                keep,
                found,
            ),
        }
    }
}

/// The header's hash field for packed data.
pub(super) fn hash(kind: PackageKind, data: &[u8]) -> [u8; 32] {
    match kind {
        PackageKind::Tar => Sha256::digest(data).into(),
        PackageKind::GzipTar => {
            let mut out = [b'0'; 32];
            out[..16].copy_from_slice(&Md5::digest(data));
            out
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `plain` is the whole input where it is not compressed: contents are then
/// shared with it instead of being copied.
fn walk<R: Read>(
    reader: R,
    plain: Option<&Bytes>,
    limit: u64,
    mut keep: impl FnMut(&str) -> bool,
    mut found: impl FnMut(Member, Option<Bytes>),
) -> Result<(), NeffError> {
    let mut archive = tar::Archive::new(reader);
    let mut members = 0_usize;
    let mut left = limit;
    let mut long_name = None;
    let failed = |members: usize, error: &io::Error| NeffError::Archive {
        members,
        detail: error.to_string(),
    };
    // Raw entries: the interpreting iterator would read a name of any size.
    let entries = archive
        .entries()
        .map_err(|error| failed(0, &error))?
        .raw(true);
    for entry in entries {
        let mut entry = entry.map_err(|error| failed(members, &error))?;
        let kind = entry.header().entry_type();
        let size = entry
            .header()
            .entry_size()
            .map_err(|error| failed(members, &error))?;
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            let mut text = Vec::new();
            let read = entry.by_ref().take(MAX_NAME).read_to_end(&mut text);
            read.map_err(|error| failed(members, &error))?;
            long_name = if kind.is_gnu_longname() {
                gnu_name(&text)
            } else {
                pax_path(&text)
            };
            continue;
        }
        if !kind.is_file() {
            long_name = None;
            continue;
        }
        let name = long_name
            .take()
            .unwrap_or_else(|| String::from_utf8_lossy(&entry.header().path_bytes()).into_owned());
        let name = name.strip_prefix("./").unwrap_or(&name).to_owned();
        let contents = if keep(&name) {
            left = left.checked_sub(size).ok_or_else(|| NeffError::Expansion {
                member: name.clone(),
                limit,
            })?;
            let shared = plain.and_then(|data| {
                let start = usize::try_from(entry.raw_file_position()).ok()?;
                let end = start.checked_add(usize::try_from(size).ok()?)?;
                (end <= data.len()).then(|| data.slice(start..end))
            });
            let contents = match shared {
                Some(contents) => contents,
                None => {
                    let mut contents = Vec::new();
                    entry
                        .read_to_end(&mut contents)
                        .map_err(|error| failed(members, &error))?;
                    contents.shrink_to_fit();
                    contents.into()
                }
            };
            if contents.len() as u64 != size {
                return Err(NeffError::Archive {
                    members,
                    detail: format!("`{name}` has {} bytes, expected {size}", contents.len()),
                });
            }
            Some(contents)
        } else {
            None
        };
        found(Member { name, size }, contents);
        members += 1;
    }
    Ok(())
}

fn gnu_name(text: &[u8]) -> Option<String> {
    let end = text
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(text.len());
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// The `path` record of a pax extension: `<length> path=<value>\n`.
fn pax_path(text: &[u8]) -> Option<String> {
    text.split(|byte| *byte == b'\n').find_map(|record| {
        let record = String::from_utf8_lossy(record);
        let (_, pair) = record.split_once(' ')?;
        Some(pair.strip_prefix("path=")?.to_owned())
    })
}
