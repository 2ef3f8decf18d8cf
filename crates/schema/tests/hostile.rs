//! Mutated files: no panic, and no memory out of proportion to the input.

use std::collections::BTreeMap;

use bytes::Bytes;
use metaneff_schema::neff::{Neff, NeffBuilder, NeffHeader, PackageKind, ParseOptions};
use metaneff_schema::{Document, MetaNeffBuilder, decode_hlo, decode_metaneff};
use prost::Message as _;

/// Mutants of each of the three formats.
const MUTANTS: u32 = 4_000;

/// What reading may need beside 64 times the input: buffers of the inflater and
/// of the archive reader, and the reader's own free allowance.
const CONSTANT: usize = 256 << 10;

/// The most that `action` had allocated at once.
fn peak_of(action: impl FnOnce()) -> usize {
    usize::try_from(allocation_counter::measure(action).bytes_max).unwrap_or(usize::MAX)
}

/// A small generator with a fixed seed, so that a failure names its mutant.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % (limit.max(1) as u64)).unwrap_or(0)
    }
}

/// Flips, cuts, inflated lengths, splices and repeats; one to four of them.
fn mutate(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next().to_le_bytes()[0],
            2 => bytes.truncate(at),
            3 => bytes[at] = 0xff,
            4 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let length = random.below(200).min(other.len() - from);
                bytes.splice(at..at, other[from..from + length].iter().copied());
            }
            5 => {
                let length = random.below(64).min(bytes.len() - at);
                let part = bytes[at..at + length].repeat(1 + random.below(50));
                bytes.splice(at..at, part);
            }
            _ => {
                let end = (at + 1 + random.below(8)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

fn modules() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let files: BTreeMap<_, _> = std::fs::read_dir(folder)
        .expect("the folder is in the repository")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pb"))
        .map(|path| {
            (
                path.clone(),
                std::fs::read(path).expect("a file of the repository"),
            )
        })
        .collect();
    assert_eq!(files.len(), 6);
    files.into_values().collect()
}

fn check(kind: &str, seeds: &[Vec<u8>], read: impl Fn(Bytes) -> bool) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for mutant in 0..MUTANTS {
        let bytes = Bytes::from(mutate(&mut random, seeds));
        let size = bytes.len();
        let mut accepted = false;
        let peak = peak_of(|| accepted = read(bytes));
        let limit = 64 * size + CONSTANT;
        assert!(
            peak <= limit,
            "{kind} mutant {mutant}: {peak} bytes for {size}, limit {limit}"
        );
        refused += u32::from(!accepted);
    }
    // Mutants that all pass or all fail would show that nothing was tried.
    assert!(
        refused > MUTANTS / 20 && refused < MUTANTS,
        "{kind}: {refused} refused"
    );
}

#[test]
fn mutated_modules() {
    check("HLO", &modules(), |bytes| decode_hlo(bytes).is_ok());
}

#[test]
fn mutated_metaneffs() {
    let seeds: Vec<_> = modules()
        .into_iter()
        .map(|module| {
            let builder = MetaNeffBuilder::from_hlo(module).unwrap();
            builder
                .user_input(0, "x")
                .weight(1, "w")
                .return_aliases(true)
                .build()
                .encode_to_vec()
        })
        .collect();
    check("metaneff", &seeds, |bytes| {
        let document = Document::parse(bytes.clone());
        let message = decode_metaneff(bytes);
        assert_eq!(document.is_ok(), message.is_ok());
        let Ok(mut document) = document else {
            return false;
        };
        document.set_dynamic_batching(true);
        document.set_lazy_load(true);
        assert_eq!(
            document.message().unwrap(),
            decode_metaneff(document.to_vec()).unwrap()
        );
        true
    });
}

#[test]
fn mutated_containers() {
    let mut seeds = Vec::new();
    for module in modules() {
        for kind in [PackageKind::Tar, PackageKind::GzipTar] {
            let builder = NeffBuilder::from_hlo(module.clone()).unwrap().package(kind);
            seeds.push(builder.build().to_vec());
        }
    }
    check("NEFF", &seeds, |bytes| {
        let header = NeffHeader::read(&bytes);
        let neff = Neff::parse(bytes, &ParseOptions::default());
        assert!(header.is_ok() || neff.is_err());
        neff.is_ok()
    });
}
