//! The 1,024 bytes in front of the package.
//!
//! Source: the documented header structure of the Neuron tools ("work with NEFF
//! files"); all numbers are little-endian.

use crate::neff::NeffError;

/// Bytes of a header.
pub const HEADER_SIZE: usize = 1024;

/// How members are packed, and how the data is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PackageKind {
    /// Version 1: a plain tar, hashed with SHA-256.
    Tar,
    /// Version 2: a gzip-compressed tar, its compressed bytes hashed with MD5.
    GzipTar,
}

impl PackageKind {
    /// The header's package version.
    #[must_use]
    pub const fn version(self) -> u64 {
        match self {
            Self::Tar => 1,
            Self::GzipTar => 2,
        }
    }
}

/// The header of a NEFF.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeffHeader {
    /// How members are packed.
    pub package: PackageKind,
    /// Bytes of the package after the header.
    pub data_size: u64,
    /// Format version, major and minor.
    pub version: (u64, u64),
    /// Version of the compiler, in its own words.
    pub build_version: String,
    /// Hash of the data: the first 16 bytes are an MD5 and the rest ASCII `0`
    /// for [`PackageKind::GzipTar`], all are a SHA-256 for [`PackageKind::Tar`].
    pub hash: [u8; 32],
    /// Identity of the file.
    pub uuid: [u8; 16],
    /// Name of the model.
    pub name: String,
    /// Cores that the program asks for.
    pub requested_cores: u32,
    /// Cores on each node, up to the first zero.
    pub cores_per_node: Vec<u8>,
    /// Features that the runtime must have; see [`NeffError::Features`].
    pub feature_bits: u64,
    /// Physical cores of one logical core (LNC); 0 is not stated.
    pub logical_core_size: u32,
}

impl NeffHeader {
    /// Reads the header alone; the package may be absent.
    ///
    /// Checks what the bytes themselves decide: size, package version, header
    /// size. The gates of versions, features and data are those of
    /// [`Neff::parse`](crate::neff::Neff::parse).
    ///
    /// # Errors
    ///
    /// [`NeffError::TooShort`], [`NeffError::PackageVersion`],
    /// [`NeffError::HeaderSize`].
    pub fn read(bytes: &[u8]) -> Result<Self, NeffError> {
        let found = bytes.len();
        let header: &[u8; HEADER_SIZE] = bytes.first_chunk().ok_or(NeffError::TooShort {
            expected: HEADER_SIZE,
            found,
        })?;
        let package = match u64_at(header, 0x000) {
            1 => PackageKind::Tar,
            2 => PackageKind::GzipTar,
            found => return Err(NeffError::PackageVersion { found }),
        };
        let size = u64_at(header, 0x008);
        if size != HEADER_SIZE as u64 {
            return Err(NeffError::HeaderSize {
                expected: HEADER_SIZE as u64,
                found: size,
            });
        }
        let per_node: [u8; 64] = bytes_at(header, 0x1E0);
        let nodes = per_node
            .iter()
            .position(|cores| *cores == 0)
            .unwrap_or(per_node.len());
        Ok(Self {
            package,
            data_size: u64_at(header, 0x010),
            version: (u64_at(header, 0x018), u64_at(header, 0x020)),
            build_version: text_at::<128>(header, 0x028),
            hash: bytes_at(header, 0x0AC),
            uuid: bytes_at(header, 0x0CC),
            name: text_at::<256>(header, 0x0DC),
            requested_cores: u32_at(header, 0x1DC),
            cores_per_node: per_node[..nodes].to_vec(),
            feature_bits: u64_at(header, 0x220),
            logical_core_size: u32_at(header, 0x228),
        })
    }

    /// Writes the header. Texts that do not fit are cut.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut out = [0; HEADER_SIZE];
        let mut put = |offset: usize, bytes: &[u8]| {
            out[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(0x000, &self.package.version().to_le_bytes());
        put(0x008, &(HEADER_SIZE as u64).to_le_bytes());
        put(0x010, &self.data_size.to_le_bytes());
        put(0x018, &self.version.0.to_le_bytes());
        put(0x020, &self.version.1.to_le_bytes());
        put(0x028, cut(&self.build_version, 127));
        put(
            0x0A8,
            &u32::from(self.package == PackageKind::GzipTar).to_le_bytes(),
        );
        put(0x0AC, &self.hash);
        put(0x0CC, &self.uuid);
        put(0x0DC, cut(&self.name, 255));
        put(0x1DC, &self.requested_cores.to_le_bytes());
        put(
            0x1E0,
            &self.cores_per_node[..self.cores_per_node.len().min(64)],
        );
        put(0x220, &self.feature_bits.to_le_bytes());
        put(0x228, &self.logical_core_size.to_le_bytes());
        out
    }
}

/// The longest start of `text` that has at most `limit` bytes and ends between
/// characters.
fn cut(text: &str, limit: usize) -> &[u8] {
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text.as_bytes()[..end.unwrap_or(0)]
}

fn bytes_at<const N: usize>(header: &[u8; HEADER_SIZE], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&header[offset..offset + N]);
    out
}

fn u64_at(header: &[u8; HEADER_SIZE], offset: usize) -> u64 {
    u64::from_le_bytes(bytes_at(header, offset))
}

fn u32_at(header: &[u8; HEADER_SIZE], offset: usize) -> u32 {
    u32::from_le_bytes(bytes_at(header, offset))
}

fn text_at<const N: usize>(header: &[u8; HEADER_SIZE], offset: usize) -> String {
    let bytes: [u8; N] = bytes_at(header, offset);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> NeffHeader {
        NeffHeader {
            package: PackageKind::GzipTar,
            data_size: 77,
            version: (2, 1),
            build_version: "2.20%main@abc".to_owned(),
            hash: [7; 32],
            uuid: [9; 16],
            name: "é".repeat(200),
            requested_cores: 2,
            cores_per_node: vec![2],
            feature_bits: 0x100,
            logical_core_size: 1,
        }
    }

    #[test]
    fn fields_stand_at_their_offsets_and_survive() {
        let bytes = header().to_bytes();
        assert_eq!(bytes[0x010], 77);
        assert_eq!(bytes[0x1DC], 2);
        assert_eq!(bytes[0x221], 1);
        let read = NeffHeader::read(&bytes).unwrap();
        assert_eq!(read.name, "é".repeat(127));
        assert_eq!(
            NeffHeader {
                name: header().name,
                ..read
            },
            header()
        );
    }

    #[test]
    fn each_gate_names_what_it_found() {
        let mut bytes = header().to_bytes();
        let short = NeffHeader::read(&bytes[..1023]).unwrap_err();
        assert_eq!(
            short,
            NeffError::TooShort {
                expected: 1024,
                found: 1023
            }
        );
        bytes[8] = 1;
        let size = NeffHeader::read(&bytes).unwrap_err();
        assert_eq!(
            size,
            NeffError::HeaderSize {
                expected: 1024,
                found: 1025
            }
        );
        bytes[0] = 3;
        assert_eq!(
            NeffHeader::read(&bytes).unwrap_err(),
            NeffError::PackageVersion { found: 3 }
        );
    }
}
