//! `.npz`: a zip of `.npy`.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Write as _};
use std::path::Path;

use metaneff_binding::HostTensor;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::{Array, npy};
use crate::exit::Failure;
use crate::files;

/// An opened `.npz`.
pub(super) type Npz = ZipArchive<BufReader<File>>;

pub(super) fn open(path: &Path) -> Result<Npz, Failure> {
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    ZipArchive::new(BufReader::new(file)).map_err(|error| Failure::file(path, &error))
}

/// The arrays' names.
pub(super) fn names(archive: &Npz) -> Vec<String> {
    let names = archive.file_names().filter_map(Result::ok);
    let arrays = names.filter_map(|name| name.strip_suffix(".npy").map(str::to_owned));
    arrays.collect()
}

pub(super) fn read(archive: &mut Npz, name: &str) -> io::Result<Array> {
    let member = archive
        .by_name(&format!("{name}.npy"))
        .map_err(io::Error::other)?;
    // The size that the directory tells is a bound, not a promise.
    let size = member.size();
    npy::read(member, size)
}

/// Writes arrays, not compressed: all of the file or nothing.
pub(crate) fn write(path: &Path, arrays: &[(String, HostTensor<'static>)]) -> Result<(), Failure> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut fill = || -> io::Result<()> {
        for (name, array) in arrays {
            let large = array.bytes().len() as u64 > u64::from(u32::MAX);
            let options = SimpleFileOptions::default()
                .compression_method(CompressionMethod::Stored)
                .large_file(large);
            zip.start_file(format!("{name}.npy"), options)
                .map_err(io::Error::other)?;
            zip.write_all(&npy::header(array.dtype(), array.shape().dims()))?;
            zip.write_all(array.bytes())?;
        }
        Ok(())
    };
    let filled = fill().and_then(|()| zip.finish().map_err(io::Error::other));
    let bytes = filled.map_err(|error| Failure::Write {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    files::write(path, [bytes.get_ref().as_slice()])
}
